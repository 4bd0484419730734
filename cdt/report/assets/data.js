'use strict';
// The numbers of a figure: unpacking them, the table behind the figure, its CSV.
const CdtData = (() => {
  const kLetters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const kPlaces = new Map([...kLetters].map((letter, place) => [letter, place]));

  // The reverse of pack() in pack.cpp: differences of the numbers' ranks among all decimal numbers with
  // so many digits, in base 64 with a continuation bit; '-' is a gap.
  function unpack([digits, lowest, text]) {
    const values = [];
    const first = 10 ** (digits - 1);
    const per_exponent = 9 * first;
    let rank = 0;
    for (let i = 0; i < text.length;) {
      if (text[i] === '-') {
        values.push(null);
        ++i;
        continue;
      }
      let code = 0;
      for (let unit = 1;; unit *= 32) {
        const place = kPlaces.get(text[i++]);
        code += (place % 32) * unit;
        if (place < 32) break;
      }
      rank += code % 2 ? -Math.floor(code / 2) : code / 2;
      if (digits === 0 || rank === 0) {
        values.push(rank);
        continue;
      }
      const place = Math.abs(rank) - 1;
      const exponent = Math.floor(place / per_exponent);
      const mantissa = first + place - exponent * per_exponent;
      values.push(Number(`${rank < 0 ? '-' : ''}${mantissa}e${exponent + lowest}`));
    }
    return values;
  }

  // Replaces packed lists by numbers, once.
  function open(spec) {
    if (spec.opened) return spec;
    const lists = spec.lists.map(unpack);
    for (const series of spec.series) {
      series.x = lists[series.x];
      for (const key of ['y', 'low', 'high']) {
        if (series[key]) series[key] = unpack(series[key]);
      }
    }
    spec.opened = true;
    return spec;
  }

  // One column per series where all share their x; else a row per point with the name of its series.
  function table(spec) {
    open(spec);
    const {series} = spec;
    const x_name = spec.x.label || 'x';
    const shared = series.every((each) => each.x === series[0].x);
    if (!shared) {
      const bands = series.some((each) => each.low);
      const rows = [];
      for (const each of series) {
        each.x.forEach((x, i) => {
          const row = [each.name, x, each.y[i]];
          if (bands) row.push(each.low ? each.low[i] : null, each.high ? each.high[i] : null);
          rows.push(row);
        });
      }
      return {columns: ['series', x_name, spec.y.label || 'y', ...(bands ? ['low', 'high'] : [])], rows};
    }
    const columns = [x_name];
    const lists = [];
    for (const each of series) {
      columns.push(each.name);
      lists.push(each.y);
      if (each.low) {
        columns.push(`${each.name}, low`, `${each.name}, high`);
        lists.push(each.low, each.high);
      }
    }
    return {columns, rows: (series[0] ? series[0].x : []).map((x, i) => [x, ...lists.map((list) => list[i])])};
  }

  // A text that a spreadsheet would run as a formula has an apostrophe in front, as cdt train --csv-safe writes it.
  const is_formula = (text) => /^[=+@-]/.test(text) && (text.length === 1 || Number.isNaN(Number(text)));
  const guarded = (text) => (/^[\t\r]/.test(text) ? "'" : '')
    + text.split(/([;|\t\r\n])/).map((part, i) => i % 2 === 0 && is_formula(part) ? `'${part}` : part).join('');
  function csv(spec) {
    const cell = (value) => {
      const text = value === null || value === undefined ? '' : typeof value === 'string' ? guarded(value) : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const {columns, rows} = table(spec);
    return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
  }

  // Numbers as a paper prints them.
  const kRaised = {'-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹'};
  const power = (exponent) => `10${[...String(exponent)].map((sign) => kRaised[sign]).join('')}`;
  function show(value, digits = 4) {
    if (value === null || value === undefined || !Number.isFinite(value)) return '–';
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e7)) {
      const [mantissa, exponent] = value.toExponential(digits - 1).split('e');
      const short = String(Number(mantissa));
      return `${short === '1' ? '' : short === '-1' ? '−' : `${short.replace('-', '−')}·`}${power(Number(exponent))}`;
    }
    const rounded = size >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits));
    return String(rounded).replace('-', '−');
  }

  return {open, table, csv, show, power};
})();
