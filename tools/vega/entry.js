// The parts of Vega that the report draws with: no maps, forces, trees or word clouds.
import {extend} from 'vega-util';
import {transforms} from 'vega-dataflow';
import * as data from 'vega-transforms';
import * as view from 'vega-view-transforms';
import * as encode from 'vega-encode';
extend(transforms, data, view, encode);

export {View} from 'vega-view';
export {parse} from 'vega-parser';
export {expressionInterpreter} from 'vega-interpreter';
export {compile} from 'vega-lite';
