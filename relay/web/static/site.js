// The frame's own script. Every page is whole without it.
(() => {
  // "/" goes to the search box, as on other sites where people look for code
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || document.documentElement.dataset.keys === 'off' || event.ctrlKey || event.metaKey || event.altKey) return
    if (event.target.closest('input, textarea, select, [contenteditable]')) return
    event.preventDefault()
    document.getElementById('find')?.focus()
  })

  // what a reader chose stays chosen on this machine
  const kept = (name) => { try { return localStorage.getItem(name) } catch { return null } }
  const choose = (id, standard, act) => {
    const button = document.getElementById(id)
    if (!button) return
    const set = (on) => { button.setAttribute('aria-pressed', String(on)); act(on) }
    set((kept(id) ?? standard) === 'on')
    button.hidden = false
    button.addEventListener('click', () => {
      const on = button.getAttribute('aria-pressed') !== 'true'
      try { localStorage.setItem(id, on ? 'on' : 'off') } catch { /* a private window: for this page then */ }
      set(on)
    })
  }
  choose('exact-times', 'off', (on) => document.documentElement.classList.toggle('exact', on))
  choose('single-keys', 'on', (on) => { document.documentElement.dataset.keys = on ? 'on' : 'off' })

  // a time says what it is on the reader's own clock too
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })
  const explain = (event) => {
    const time = event.target.closest?.('time[datetime]')
    if (!time || time.dataset.local) return
    const at = new Date(time.dateTime)
    if (isNaN(at)) return
    time.dataset.local = local.format(at)
    time.title = [time.title, `${time.dataset.local} here`].filter(Boolean).join('\n')
  }
  document.addEventListener('pointerover', explain)
  document.addEventListener('focusin', explain)
})()
