// Draws every element with data-plot: {kind: "time" | "bars", x or names, unit, x_label, y_label,
// series: [{label, points}]}.
// The same numbers stand beside it as text; without this script nothing is missing but the picture.
(() => {
  const drawn = new Map()
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  const said = (value, unit) => {
    if (value == null) return '–'
    if (value === 0) return '0'
    if (unit !== 's') return value.toLocaleString('en')
    if (value < 1) return `${Math.round(value * 1000)} ms`
    if (value < 60) return `${+value.toFixed(1)} s`
    if (value < 3600) return `${Math.round(value / 60)} min`
    return `${+(value / 3600).toFixed(1)} h`
  }

  const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
  const hour = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone: 'UTC' })
  const times = (u, at) => {
    const span = u.scales.x.max - u.scales.x.min
    return at.map((t) => (span > 2 * 86400 ? day : hour).format(t * 1000))
  }

  const seconds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]

  const options = (plot, width, height) => {
    const ink = colour('--soft')
    const line = colour('--line')
    const colours = [colour('--accent'), colour('--warn'), colour('--good'), colour('--bad')]
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: '12px system-ui' }
    const bars = plot.kind === 'bars'
    return {
      width, height,
      padding: [10, 26, 0, 0],
      cursor: { drag: { x: !bars, y: false } },
      // of bars the text beside them says as much
      legend: { show: !bars, live: true, markers: { width: 0, fill: (u, n) => colours[(n - 1) % colours.length] } },
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), 'Etc/UTC'),
      scales: { x: { time: !bars, range: bars ? [-0.6, plot.names.length - 0.4] : undefined }, y: { range: (u, min, max) => [0, Math.max(max, 1e-3) * 1.08] } },
      axes: [
        bars
          ? { ...axis, grid: { show: false }, label: plot.x_label, labelSize: 18, labelGap: 0, labelFont: '12px system-ui', splits: () => plot.names.map((_, n) => n), values: (u, at) => at.map((n) => plot.names[n].replace(' to ', '–').replace(' and more', '+')) }
          : { ...axis, values: times },
        { ...axis, size: 62, label: plot.y_label, labelSize: 18, labelFont: '12px system-ui', incrs: plot.unit === 's' ? seconds : undefined, values: (u, at) => at.map((v) => said(v, plot.unit)) },
      ],
      series: [
        bars ? { label: plot.x_label, value: (u, n) => plot.names[n] ?? '–' } : { label: 'when (UTC)', value: (u, t) => (t == null ? '' : new Date(t * 1000).toISOString().slice(0, 16).replace('T', ' ')) },
        ...plot.series.map((one, n) => ({
          label: one.label,
          stroke: colours[n % colours.length],
          fill: bars ? colours[n % colours.length] : undefined,
          width: bars || plot.scattered ? 0 : 1.5,
          paths: bars ? uPlot.paths.bars({ size: [0.7, 60] }) : plot.scattered ? () => null : undefined,
          points: { show: !bars, size: plot.scattered ? 6 : 4, width: plot.scattered ? 0 : 1, fill: colours[n % colours.length] },
          spanGaps: true,
          value: (u, v) => (v == null ? '' : said(v, plot.unit)),
        })),
      ],
    }
  }

  const draw = (figure) => {
    let plot
    try { plot = JSON.parse(figure.dataset.plot) } catch { return }
    const width = figure.clientWidth
    if (!width || !window.uPlot) return
    drawn.get(figure)?.destroy()
    const x = plot.kind === 'bars' ? plot.names.map((_, n) => n) : plot.x
    const height = figure.classList.contains('low') ? 170 : 230
    drawn.set(figure, new uPlot(options(plot, width, height), [x, ...plot.series.map((one) => one.points)], figure))
  }
  const all = () => {
    for (const [figure, chart] of drawn) if (!figure.isConnected) { chart.destroy(); drawn.delete(figure) }
    document.querySelectorAll('[data-plot]').forEach(draw)
  }
  let later
  addEventListener('resize', () => { clearTimeout(later); later = setTimeout(all, 150) })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', all)
  document.addEventListener('htmx:after:swap', (event) => { if (event.target.closest?.('#device') || event.target.querySelector?.('[data-plot]')) all() })
  all()
})()
