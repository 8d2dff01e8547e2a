// Keys of a grid: j k between commits, h l between jobs, Enter opens (the link's own), p pins, f filters.
(() => {
  const grid = document.querySelector('table[data-keys]')
  if (!grid) return
  const rows = [...grid.tBodies[0].rows]
  const columns = grid.tHead.rows[0].cells.length
  let row = -1
  let column = 1

  const show = () => {
    grid.querySelectorAll('.here').forEach((cell) => cell.classList.remove('here'))
    const cell = rows[row]?.cells[column]
    if (!cell) return
    cell.classList.add('here')
    const target = cell.querySelector('a') ?? cell
    if (target === cell) cell.tabIndex = -1
    target.focus({ preventScroll: true })
    cell.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }
  const within = (value, last) => Math.min(Math.max(value, 0), last)
  const moves = {
    j: () => { row = within(row + 1, rows.length - 1) },
    k: () => { row = within(row - 1, rows.length - 1) },
    l: () => { row = within(row, rows.length - 1); column = within(column + 1, columns - 2) },
    h: () => { row = within(row, rows.length - 1); column = within(column - 1, columns - 2) },
  }

  document.addEventListener('keydown', (event) => {
    if (document.documentElement.dataset.keys === 'off' || event.ctrlKey || event.metaKey || event.altKey) return
    if (event.target.closest('input, textarea, select, [contenteditable]')) {
      if (event.key === 'Escape') event.target.blur()
      return
    }
    if (moves[event.key]) {
      event.preventDefault()
      moves[event.key]()
      show()
    } else if (event.key === 'p' && row >= 0) {
      grid.tHead.rows[0].cells[column]?.querySelector('a')?.click()
    } else if (event.key === 'f') {
      event.preventDefault()
      document.querySelector('#grid-filters [name=find]')?.focus()
    }
  })
  // where a reader clicked or tabbed to, the keys go on from
  grid.addEventListener('focusin', (event) => {
    const cell = event.target.closest('tbody td, tbody th')
    if (cell) { row = rows.indexOf(cell.parentElement); column = Math.max(1, cell.cellIndex) }
  })
  // filters that are ticks and choices work at once; the box waits for Enter
  document.querySelectorAll('#grid-filters select, #grid-filters [type=checkbox]').forEach((one) =>
    one.addEventListener('change', () => one.form.requestSubmit()))
})()
