'use strict';
// One figure: its chart, legend, zoom, scales and colours. Chart.js draws; the rest is here.
const CdtFigure = (() => {
  const {show} = CdtData;
  const kShapes = ['circle', 'rect', 'triangle', 'rectRot', 'crossRot', 'star', 'cross'];
  const kMarkerGap = 110;  // pixels between the markers of a curve
  const kLeastDrag = 8;    // pixels; less is a click
  const kFewPoints = 3;    // are marks on a curve, no cloud

  // Every curve's value at the x that is nearest to the pointer; of clouds, the nearest point.
  Chart.Interaction.modes.nearestX = (chart, event) => {
    const at = Chart.helpers.getRelativePosition(event, chart);
    let best = Infinity;
    let items = [];
    chart.data.datasets.forEach((dataset, datasetIndex) => {
      if (dataset.band || !chart.isDatasetVisible(datasetIndex)) return;
      const cloud = dataset.style === 'points';
      chart.getDatasetMeta(datasetIndex).data.forEach((element, index) => {
        const {x, y} = dataset.data[index];
        if (x === null || y === null || Number.isNaN(element.x) || Number.isNaN(element.y)) return;
        if (!chart.isPointInArea({x: element.x, y: chart.chartArea.top})) return;
        const gap = cloud ? Math.hypot(element.x - at.x, element.y - at.y) : Math.abs(element.x - at.x);
        if (gap > best + 1e-6 || (cloud && gap > 30)) return;
        if (gap < best - 1e-6) items = [];
        best = Math.min(gap, best);
        items.push({element, datasetIndex, index});
      });
    });
    return items;
  };

  // Marks along each curve, so that colour alone need not tell them apart: evenly on the screen, at
  // another place for each, and on points without neighbours, which a line would not show.
  const markers = {
    id: 'markers',
    afterDatasetDraw(chart, {index, meta}) {
      const dataset = chart.data.datasets[index];
      if (dataset.band || (dataset.style !== 'line' && dataset.style !== 'dashed')) return;
      const {ctx, chartArea} = chart;
      const mark = ({x, y}) => Chart.helpers.drawPoint(ctx, {pointStyle: dataset.shape, radius: 4, borderWidth: 1.5}, x, y);
      let next = chartArea.left + 20 + ((dataset.number * 37) % kMarkerGap);
      let last = null;
      let marked = false;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = dataset.borderColor;
      ctx.lineWidth = 1.5;
      // From left to right, also where large values come first.
      const backwards = chart.scales.x.options.reverse;
      meta.data.forEach((unused, at) => {
        const i = backwards ? meta.data.length - 1 - at : at;
        const point = meta.data[i];
        if (point.skip || !chart.isPointInArea(point)) return;
        last = point;
        const missing = (other) => !other || other.skip;
        const alone = missing(meta.data[i - 1]) && missing(meta.data[i + 1]);
        if (point.x < next && !alone) return;
        if (!alone) next = point.x + kMarkerGap;
        if (dataset.several || alone) mark(point);
        marked = true;
      });
      if (last && !marked && dataset.several) mark(last);
      ctx.restore();
    },
  };

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function swatch(dataset) {
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    svg.setAttribute('width', 26);
    svg.setAttribute('height', 12);
    svg.setAttribute('aria-hidden', 'true');
    const add = (name, attributes) => {
      const node = document.createElementNS(space, name);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      svg.append(node);
    };
    const stroke = {stroke: dataset.borderColor, 'stroke-width': 2, fill: 'none'};
    const mark = {stroke: dataset.borderColor, fill: dataset.borderColor, 'stroke-width': 1.5};
    if (dataset.style === 'bars') {
      add('rect', {x: 8, y: 1, width: 10, height: 10, fill: dataset.borderColor});
      return svg;
    }
    if (dataset.style !== 'points') {
      add('path', {d: 'M0 6H26', ...stroke, ...(dataset.style === 'dashed' ? {'stroke-dasharray': '6 3'} : {})});
      if (!dataset.several) return svg;
    }
    const shapes = {
      circle: 'M9.5 6a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0',
      rect: 'M10 3h6v6h-6z',
      triangle: 'M13 2l4 7h-8z',
      rectRot: 'M13 2l4 4l-4 4l-4 -4z',
      crossRot: 'M10 3l6 6M16 3l-6 6',
      star: 'M10 3l6 6M16 3l-6 6M13 2v8M9 6h8',
      cross: 'M13 2v8M9 6h8',
    };
    add('path', {d: shapes[dataset.shape], ...mark});
    return svg;
  }

  class Figure {
    constructor(node, spec) {
      this.node = node;
      this.spec = CdtData.open(spec);
      this.canvas = node.querySelector('canvas');
      this.logarithmic = {x: spec.x.log, y: spec.y.log, y2: spec.y2.log};
      this.hidden = new Set();
      this.zoomed = null;
      this.right = spec.series.some((series) => series.right);
      this.build_tools();
      this.draw();
      this.listen();
    }

    // Curves as Chart.js wants them, in the colours of the theme. Gaps where a logarithm has no value.
    datasets() {
      const colours = css('--series').split(/\s+/);
      const {series} = this.spec;
      const several = series.length > 1;
      const datasets = [];
      series.forEach((each, number) => {
        const axis = each.right ? 'y2' : 'y';
        // A dashed line from here to there is what the others are compared with.
        const reference = several && each.style === 'dashed' && each.x.length <= 2;
        const colour = reference ? css('--soft') : colours[number % colours.length];
        const usable = (value, scale) => value !== null && (!this.logarithmic[scale] || value > 0);
        const points = (list, floor) => each.x.map((x, i) => {
          const y = floor !== undefined && list[i] !== null && !usable(list[i], axis) ? floor : list[i];
          return {x: usable(x, 'x') ? x : null, y: usable(y, axis) ? y : null};
        });
        const sorted = (list) => list.filter(({x}) => x !== null).sort((a, b) => a.x - b.x);
        const common = {
          name: each.name, number, several: several && !reference, style: each.style, yAxisID: axis, borderColor: colour,
          hidden: this.hidden.has(number), shape: kShapes[number % kShapes.length],
        };
        if (each.low) {
          // A band that reaches below zero goes down to the lowest value that a logarithm can show.
          const floor = each.y.reduce((low, value) => (value > 0 && !(low <= value) ? value : low), undefined);
          const band = {...common, type: 'line', band: true, borderWidth: 0, pointRadius: 0, pointHitRadius: 0, order: 3};
          datasets.push({...band, data: sorted(points(each.low, floor)), fill: false});
          datasets.push({...band, data: sorted(points(each.high)), fill: '-1', backgroundColor: `${colour}2b`});
        }
        const kinds = {
          line: {type: 'line', borderWidth: 1.75, pointRadius: 0, pointHoverRadius: 4},
          dashed: {type: 'line', borderWidth: 1.75, borderDash: [6, 4], pointRadius: 0, pointHoverRadius: 4},
          points: {type: 'scatter', pointRadius: 2.75, pointHoverRadius: 5, borderWidth: 1},
          bars: {type: 'bar', maxBarThickness: 7, borderWidth: 1, order: 4},
        };
        const few = each.style === 'points' && each.x.length <= kFewPoints;
        if (few) Object.assign(kinds.points, {pointRadius: 7, pointHoverRadius: 8});
        const behind = each.style === 'bars' && series.some(({style}) => style !== 'bars');
        // Chart.js makes bars as thin as the two that are closest; a few at places of their own stay visible.
        if (behind) kinds.bars.barThickness = 5;
        const fill = behind ? `${colour}40` : each.style === 'points' && !few ? `${colour}99` : colour;
        datasets.push({
          ...common, order: 2 - number / series.length, ...kinds[each.style], source: each, backgroundColor: fill,
          pointStyle: common.shape, pointBackgroundColor: fill, data: sorted(points(each.y)),
        });
      });
      return datasets;
    }

    // All that is drawn against an axis.
    values(name) {
      return this.spec.series.flatMap((each, number) => {
        if (this.hidden.has(number) || (name !== 'x' && (name === 'y2') !== Boolean(each.right))) return [];
        if (name === 'x') return each.x;
        if (!each.low) return each.y;
        // A band that comes close to zero is cut off, lest the curves get a small part of the axis.
        const floor = each.y.reduce((low, value) => (value > 0 && value < low ? value : low), Infinity) / 3;
        return [...each.y, ...each.high, ...each.low.map((value) => Math.max(value, floor))];
      });
    }

    scale(name, axis, position) {
      const logarithmic = this.logarithmic[name];
      const zoomed = this.zoomed && this.zoomed[name];
      const ink = css('--soft');
      const {series} = this.spec;
      const whole = this.values(name).every((value) => value === null || Number.isInteger(value));  // counts
      // Curves end at the edge, bars have a little room around them; clouds end with a tick.
      const cloudy = name !== 'x' || series.some(({style, x}) => style === 'points' && x.length > kFewPoints);
      const room = cloudy ? 0.04 : series.some(({style}) => style === 'bars') ? 0.02 : 0;
      const own = logarithmic || !cloudy ? CdtTicks.limits(this.values(name), logarithmic, room) : null;
      const limits = zoomed ? {min: Math.min(...zoomed), max: Math.max(...zoomed)} : own || {};
      const by_hand = limits.max > limits.min && (!logarithmic || limits.min > 0);
      const place_ticks = (scale) => {
        const across = scale.isHorizontal();
        const length = Math.max((across ? this.canvas.clientWidth : this.canvas.clientHeight) - 60, 60);
        const {min, max} = limits;
        const widest = Math.max(...[min, max, (min + max) / 2].map((value) => show(value, 3).length));
        const list = logarithmic ? CdtTicks.logarithmic(min, max, length, across ? 64 : 20)
          : CdtTicks.linear(min, max, length, across ? Math.max(50, 8 * widest + 24) : 26, whole);
        scale.ticks = list.map((value) => ({value}));
      };
      return {
        type: logarithmic ? 'logarithmic' : 'linear',
        position,
        reverse: Boolean(axis.reversed),
        offset: false,
        display: name !== 'y2' || this.right,
        bounds: by_hand ? 'data' : 'ticks',
        ...limits,
        ...(by_hand ? {afterBuildTicks: place_ticks} : {}),
        title: {display: axis.label !== '', text: axis.label, color: ink},
        ticks: {
          color: ink, ...(whole ? {precision: 0} : {}), maxRotation: 0, autoSkipPadding: 14, autoSkip: !by_hand,
          callback: (value, index, ticks) => (logarithmic ? CdtTicks.label(value, ticks) : show(value, 6)),
        },
        grid: {color: css('--grid'), offset: false, borderColor: css('--rule'), drawOnChartArea: name !== 'y2', tickColor: css('--rule')},
      };
    }

    draw() {
      const {spec} = this;
      if (this.chart) this.chart.destroy();
      this.chart = null;
      const tooltip_value = ({dataset, raw, dataIndex}) => {
        const {source} = dataset;
        const at = source.low && this.chart.width > 500 ? source.x.indexOf(raw.x) : -1;
        const band = at < 0 ? '' : `  (${show(source.low[at])} to ${show(source.high[at])})`;
        const name = dataset.style === 'points' ? `${dataset.name}: ${show(raw.x)}, ` : `${dataset.name}: `;
        return `${name}${show(raw.y)}${band}`;
      };
      this.chart = new Chart(this.canvas, {
        type: 'line',
        data: {datasets: this.datasets()},
        plugins: [markers],
        options: {
          animation: false,
          parsing: false,
          responsive: true,
          maintainAspectRatio: false,
          color: css('--ink'),
          font: {family: css('--sans')},
          interaction: {mode: 'nearestX', intersect: false},
          scales: {
            x: this.scale('x', spec.x, 'bottom'),
            y: this.scale('y', spec.y, 'left'),
            ...(this.right ? {y2: this.scale('y2', spec.y2, 'right')} : {}),
          },
          plugins: {
            legend: {display: false},
            tooltip: {
              backgroundColor: css('--paper'), titleColor: css('--ink'), bodyColor: css('--ink'),
              borderColor: css('--soft'), borderWidth: 1, boxPadding: 4, usePointStyle: true,
              itemSort: (a, b) => b.raw.y - a.raw.y,
              callbacks: {
                title: (items) => (items.length && items[0].dataset.style !== 'points'
                  ? `${spec.x.label || 'x'}: ${show(items[0].raw.x, 6)}` : ''),
                label: tooltip_value,
              },
            },
          },
        },
      });
      this.chart.update('none');  // tick labels that look at the range know it now
      this.draw_legend();
      for (const [name, button] of Object.entries(this.scale_buttons)) {
        button.setAttribute('aria-pressed', String(this.logarithmic[name]));
      }
      this.reset_button.hidden = !this.zoomed;
    }

    draw_legend() {
      const list = this.node.querySelector('.legend');
      const named = this.chart.data.datasets.filter((dataset) => !dataset.band);
      list.replaceChildren(...(named.length < 2 ? [] : named).map((dataset) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.setAttribute('aria-pressed', String(!this.hidden.has(dataset.number)));
        button.title = 'Show or hide';
        button.append(swatch(dataset), dataset.name);
        button.addEventListener('click', () => {
          if (!this.hidden.delete(dataset.number)) this.hidden.add(dataset.number);
          this.draw();
          this.node.querySelectorAll('.legend button')[dataset.number].focus();
        });
        const item = document.createElement('li');
        item.append(button);
        return item;
      }));
    }

    build_tools() {
      const tools = this.node.querySelector('.tools');
      const add = (text, title, action) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.textContent = text;
        button.title = title;
        button.addEventListener('click', action);
        tools.append(button);
        return button;
      };
      this.reset_button = add('Reset zoom', 'Show everything again (or double-click the figure)', () => this.zoom(null));
      this.scale_buttons = {};
      const axes = {x: 'log x', y: 'log y', ...(this.right ? {y2: 'log right'} : {})};
      for (const [name, text] of Object.entries(axes)) {
        const list = this.spec.series.filter((each) => name === 'x' || (name === 'y2') === Boolean(each.right));
        const possible = list.some((each) => (name === 'x' ? each.x : each.y).some((value) => value > 0));
        const button = add(text, 'Logarithmic or linear scale', () => {
          this.logarithmic[name] = !this.logarithmic[name];
          if (this.zoomed) delete this.zoomed[name];
          this.draw();
        });
        button.disabled = !possible;
        if (!possible) this.logarithmic[name] = false;
        this.scale_buttons[name] = button;
      }
      this.download_button = add('CSV', 'Download the data of this figure', () => {
        const link = document.createElement('a');
        link.href = URL.createObjectURL(new Blob([CdtData.csv(this.spec)], {type: 'text/csv'}));
        link.download = `${this.spec.id}.csv`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      });
    }

    // {x: [from, to], y: […], y2: […]}, any of them; null shows everything.
    zoom(limits) {
      this.zoomed = limits;
      this.draw();
    }

    // A drag marks what to show: a range of x, or a box if it is high as well. A double click resets.
    listen() {
      const {canvas} = this;
      const plot = canvas.parentElement;
      let start = null;
      let box = null;
      const place = (event) => {
        const {left, top} = canvas.getBoundingClientRect();
        const area = this.chart.chartArea;
        const within = (value, low, high) => Math.min(Math.max(value, low), high);
        return {
          x: within(event.clientX - left, area.left, area.right),
          y: within(event.clientY - top, area.top, area.bottom),
        };
      };
      const marked = (end) => {
        const area = this.chart.chartArea;
        const high = Math.abs(end.y - start.y) > 3 * kLeastDrag;
        return {
          left: Math.min(start.x, end.x), right: Math.max(start.x, end.x), high,
          top: high ? Math.min(start.y, end.y) : area.top, bottom: high ? Math.max(start.y, end.y) : area.bottom,
        };
      };
      const stop = () => {
        start = null;
        if (box) box.remove();
        box = null;
      };
      canvas.addEventListener('pointerdown', (event) => {
        if (event.button !== 0 || !event.isPrimary) return;
        start = place(event);
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener('pointermove', (event) => {
        if (!start) return;
        const area = marked(place(event));
        if (!box) {
          box = document.createElement('div');
          box.className = 'range';
          plot.append(box);
        }
        Object.assign(box.style, {
          left: `${area.left}px`, top: `${area.top}px`,
          width: `${area.right - area.left}px`, height: `${area.bottom - area.top}px`,
        });
      });
      canvas.addEventListener('pointerup', (event) => {
        if (!start) return;
        const area = marked(place(event));
        stop();
        if (area.right - area.left < kLeastDrag) return;
        const limits = {...(this.zoomed || {})};
        const range = (name, from, to) => {
          const scale = this.chart.scales[name];
          if (scale) limits[name] = [scale.getValueForPixel(from), scale.getValueForPixel(to)];
        };
        range('x', area.left, area.right);
        if (area.high) {
          range('y', area.bottom, area.top);
          range('y2', area.bottom, area.top);
        }
        this.zoom(limits);
      });
      canvas.addEventListener('pointercancel', stop);
      canvas.addEventListener('dblclick', () => this.zoom(null));
    }
  }
  return Figure;
})();
