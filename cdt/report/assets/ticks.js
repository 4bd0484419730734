'use strict';
// Where an axis begins and ends, and where it has ticks. Chart.js would begin logarithmic axes at the
// power of ten below the data and others with ticks counted from their first value, and leave out
// labels by their number, not by the room between them.
const CdtTicks = (() => {
  const {show, power} = CdtData;
  return {
    // From the lowest to the highest value, `room` of the length beyond them.
    limits(values, logarithmic, room) {
      let [low, high] = [Infinity, -Infinity];
      for (const value of values) {
        if (value === null || !Number.isFinite(value) || (logarithmic && value <= 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
      if (low > high) return null;
      if (logarithmic) {
        const factor = high / low < 1.05 ? 1.5 : (high / low) ** room;
        return {min: low / factor, max: high * factor};
      }
      const pad = high > low ? room * (high - low) : Math.abs(low) / 2 || 1;
      return {min: low - pad, max: high + pad};
    },
    evenly(min, max, step) {
      const list = [];
      for (let i = Math.ceil(min / step - 1e-9); i * step <= max + 1e-9 * step; ++i) list.push(Number((i * step).toPrecision(12)));
      return list;
    },
    // At least `gap` pixels apart on `length` of them.
    linear(min, max, length, gap, whole) {
      const unit = Math.floor(Math.log10((max - min) * gap / length));
      for (const step of [1, 2, 5, 10, 20].map((each) => Number(`${each}e${unit}`))) {
        if (step * length >= gap * (max - min) && (!whole || step >= 1)) return this.evenly(min, max, step);
      }
      return this.evenly(min, max, whole ? 1 : max - min);
    },
    // The densest of some lists that are so far apart.
    logarithmic(min, max, length, gap) {
      const decades = Math.log10(max / min);
      const powers = (every, steps) => {
        const list = [];
        const first = Math.floor(Math.log10(min) / every) * every;
        for (let k = first; k <= Math.log10(max); k += every) list.push(...steps.map((step) => Number(`${step}e${k}`)));
        return list.filter((value) => value >= min * (1 - 1e-9) && value <= max * (1 + 1e-9));
      };
      const fits = (list) => list.every((value, i) => i === 0 || Math.log10(value / list[i - 1]) / decades * length >= gap);
      const candidates = [];
      if (decades < 0.8) {
        const unit = Math.floor(Math.log10(max - min)) - 1;
        for (const step of [1, 2, 5, 10, 20, 50, 100]) candidates.push(() => this.evenly(min, max, Number(`${step}e${unit}`)));
      }
      if (decades < 4) candidates.push(() => powers(1, [1, 2, 3, 4, 5, 6, 7, 8, 9]), () => powers(1, [1, 1.5, 2, 3, 5, 7]),
        () => powers(1, [1, 2, 5]), () => powers(1, [1, 3]));
      for (const every of [1, 2, 3, 4, 5, 10, 20, 50, 100]) candidates.push(() => powers(every, [1]));
      let best = [];
      for (const candidate of candidates) {
        const list = candidate();
        if (!fits(list)) continue;
        if (list.length > 1) return list;
        if (list.length > best.length) best = list;
      }
      return best;
    },
    // Powers of ten as such where there are large or small ones.
    label(value, ticks) {
      const is_power = (each) => Math.abs(Math.log10(each) - Math.round(Math.log10(each))) < 1e-9;
      const wide = ticks.some(({value: each}) => each < 1e-3 || each > 1e4);
      return wide && ticks.every(({value: each}) => is_power(each)) ? power(Math.round(Math.log10(value))) : show(value, 4);
    },
  };
})();
