// The frame's own script. Every page is whole without it.
(() => {
  // "/" goes to the search box, as on other sites where people look for code
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return
    if (event.target.closest('input, textarea, select, [contenteditable]')) return
    event.preventDefault()
    document.getElementById('find')?.focus()
  })

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
