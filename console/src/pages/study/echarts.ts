/** The parts of ECharts that the study's page uses; loaded on demand. */

import { ParallelChart, ScatterChart } from "echarts/charts";
import { GridComponent, ParallelComponent, TooltipComponent } from "echarts/components";
import { init, use, type ECharts } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

use([ParallelChart, ScatterChart, GridComponent, ParallelComponent, TooltipComponent, CanvasRenderer]);

export { init };
export type { ECharts };
