package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/level"
)

// The measures of a picture, in pixels.
const (
	plotWidth, plotHeight                     = 980, 342
	marginLeft, marginRight, marginTop, below = 62, 108, 52, 30
	phaseRow, maxPhaseRows                    = 16, 3
	// A picture of many ranks has fewer columns, so that a page stays small.
	maxColumns, maxPoints = 300, 24_000
)

const (
	colorLimit = "#b3261e"
	colorDead  = "#d1495b"
	colorInk   = "#1f2933"
	colorFaint = "#7b8794"
	colorGrid  = "#e4e7eb"
	colorRest  = "#c3ccd5"
)

var (
	rankColors  = []string{"#3d6fa5", "#78aed3", "#3a9d8f", "#8fb56b", "#7b68a6", "#b29bc9", "#9a7b4f", "#5f6f7f"}
	manyColors  = []string{"#6f9fc6", "#5486b3"}
	levelColors = [...]string{level.Normal: "#8fb56b", level.Elevated: "#e0b400", level.High: "#e07b00", level.Critical: "#b3261e"}
	bandColors  = [...]string{level.Elevated: "#fff7da", level.High: "#ffe9cf", level.Critical: "#ffd9d4"}
)

// SVG writes a picture of each node over the whole run, one below the other.
func (run *Run) SVG(w io.Writer) error {
	var body strings.Builder
	y := 0
	for _, n := range run.Nodes {
		p := n.picture(run.Start, run.End)
		fmt.Fprintf(&body, `<text x="%d" y="%d" font-size="14" font-weight="600" fill="%s">%s</text>`, marginLeft, y+20, colorInk, escape(n.title()))
		fmt.Fprintf(&body, `<g transform="translate(0,%d)">%s</g>`, y+26, p.body)
		y += p.height + 34
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="system-ui,'DejaVu Sans',sans-serif"><rect width="100%%" height="100%%" fill="#fff"/>%[3]s</svg>`+"\n",
		plotWidth, max(y, 40), body.String())
	return err
}

// title says in one line what a node is.
func (n *Node) title() string {
	text := fmt.Sprintf("%s: %d %s", n.Host, len(n.Ranks), plural(len(n.Ranks), "rank"))
	if n.Limit != nil {
		text += fmt.Sprintf(", %s of %s used at most, under %s %s", size(n.Limit.PeakUsedBytes), size(n.Limit.LimitBytes), n.Limit.Source, n.Limit.Path)
	}
	return text
}

// drawing is a picture without its frame.
type drawing struct {
	body   string
	height int
}

// canvas is where a picture is drawn.
type canvas struct {
	strings.Builder
	frame
	top    float64 // bytes at the upper edge
	height int
}

func (c *canvas) x(t time.Time) float64 {
	share := float64(t.Sub(c.from)) / float64(c.to.Sub(c.from))
	return marginLeft + min(max(share, 0), 1)*(plotWidth-marginLeft-marginRight)
}

func (c *canvas) columnX(k int) float64 {
	return marginLeft + (float64(k)+0.5)/float64(c.columns)*(plotWidth-marginLeft-marginRight)
}

func (c *canvas) y(bytes float64) float64 {
	return marginTop + (1-min(max(bytes/c.top, 0), 1))*(plotHeight-marginTop-below)
}

func (c *canvas) line(x1, y1, x2, y2 float64, attrs string) {
	fmt.Fprintf(c, `<line x1="%s" y1="%s" x2="%s" y2="%s" %s/>`, px(x1), px(y1), px(x2), px(y2), attrs)
}

func (c *canvas) text(x, y float64, anchor, color, s string) {
	fmt.Fprintf(c, `<text x="%s" y="%s" text-anchor="%s" fill="%s" font-size="11">%s</text>`, px(x), px(y), anchor, color, escape(s))
}

func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(s string) string { return html.EscapeString(s) }

// picture draws the memory of the ranks of a node between two moments, stacked,
// with the limit, the levels and what happened.
func (n *Node) picture(from, to time.Time) drawing {
	if to.Sub(from) < 10*time.Millisecond {
		from = to.Add(-10 * time.Millisecond)
	}
	// A margin at the end keeps what happened there off the edge.
	to = to.Add(to.Sub(from) / 40)
	c := &canvas{frame: frame{from, to, max(min(maxColumns, maxPoints/max(len(n.Ranks), 1)), 60)}, height: plotHeight}
	layers := n.layers(c.frame)
	var limit, used []int64
	if n.Limit != nil {
		limit, used = n.underLimit(c.frame)
	}
	c.top = n.scale(layers, used)
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" fill="#fbfcfd"/>`, marginLeft, marginTop, plotWidth-marginLeft-marginRight, plotHeight-marginTop-below)
	n.bands(c)
	c.axes()
	n.stack(c, layers)
	n.limitLines(c, limit, used)
	n.events(c)
	n.legend(c, layers, used)
	n.phases(c)
	return drawing{c.String(), c.height}
}

// scale is the number of bytes at the upper edge: the limit where the use comes
// near it, else what is used.
func (n *Node) scale(layers []layer, used []int64) float64 {
	var most int64
	for k := range layers[0].bytes {
		var sum int64
		for _, l := range layers {
			sum += l.bytes[k]
		}
		most = max(most, sum)
	}
	if n.showsUse() {
		most = max(most, slices.Max(used))
	}
	if n.Limit != nil && n.Limit.LimitBytes < blackboxUnlimited && float64(n.Limit.LimitBytes) < 3*float64(most) {
		most = max(most, n.Limit.LimitBytes)
	}
	return float64(max(most, 1<<20)) * 1.06
}

// showsUse reports whether the use of the limit says something of this run: of
// the memory of a whole node only when it ran short.
func (n *Node) showsUse() bool {
	return n.Limit != nil && (n.Limit.id != 0 && n.Limit.Scope != blackbox.ScopeNode || n.Limit.use() > 0.7)
}

// bands shade the levels.
func (n *Node) bands(c *canvas) {
	if n.Limit == nil || float64(n.Limit.LimitBytes) > c.top {
		return
	}
	h := n.Ranks[0].Header
	usable := float64(n.Limit.LimitBytes - n.Limit.KeptFreeBytes)
	at := []float64{level.Elevated: h.ElevatedAt * usable, level.High: h.HighAt * usable, level.Critical: h.CriticalAt * usable, level.Critical + 1: float64(n.Limit.LimitBytes)}
	for l := level.Elevated; l <= level.Critical; l++ {
		if at[l] <= 0 || at[l] >= at[l+1] {
			continue
		}
		y1, y2 := c.y(at[l+1]), c.y(at[l])
		fmt.Fprintf(c, `<rect x="%d" y="%s" width="%d" height="%s" fill="%s"/>`, marginLeft, px(y1), plotWidth-marginLeft-marginRight, px(y2-y1), bandColors[l])
		if y2-y1 >= 12 {
			c.text(plotWidth-marginRight+6, y2-2, "start", colorFaint, l.String())
		}
	}
}

// axes draw the grid, the sizes and the times of day.
func (c *canvas) axes() {
	step := sizeStep(c.top)
	for v := 0.0; v <= c.top; v += step {
		y := c.y(v)
		c.line(marginLeft, y, plotWidth-marginRight, y, `stroke="`+colorGrid+`"`)
		c.text(marginLeft-8, y+4, "end", colorFaint, size(int64(v)))
	}
	every, format := timeStep(c.to.Sub(c.from))
	for t := c.from.Truncate(every).Add(every); t.Before(c.to); t = t.Add(every) {
		x := c.x(t)
		c.line(x, plotHeight-below, x, plotHeight-below+4, `stroke="`+colorFaint+`"`)
		c.text(x, plotHeight-below+17, "middle", colorFaint, t.Format(format))
	}
}

// sizeStep divides the scale into 4 to 8 parts of 1, 2 or 4 times a power of
// 1024, or 8 to 512 times.
func sizeStep(top float64) float64 {
	step := 1.0
	for top/step > 8 {
		step *= 2
	}
	return step
}

// timeStep divides a time into at most 8 parts that a clock has.
func timeStep(d time.Duration) (time.Duration, string) {
	for _, s := range []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	} {
		if d/s <= 8 {
			return s, "15:04:05.000"[:len("15:04:05.")+map[bool]int{true: 3, false: 1}[s < 100*time.Millisecond]]
		}
	}
	for _, s := range []time.Duration{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800} {
		if s *= time.Second; d/s <= 8 {
			return s, "15:04:05"
		}
	}
	for _, s := range []time.Duration{1, 2, 3, 6, 12} {
		if s *= time.Hour; d/s <= 8 {
			return s, "15:04"
		}
	}
	return 24 * time.Hour * max(d/(8*24*time.Hour), 1), "Jan 2"
}

// stack draws the layers, each as the sum of those up to it, the highest first.
func (n *Node) stack(c *canvas, layers []layer) {
	sum := make([]int64, c.columns)
	tops := make([][]int64, len(layers))
	for i, l := range layers {
		for k, bytes := range l.bytes {
			sum[k] += bytes
		}
		tops[i] = slices.Clone(sum)
	}
	border := ""
	if len(layers) <= 16 {
		border = ` stroke="#fff" stroke-width="0.7"`
	}
	for i := len(layers) - 1; i >= 0; i-- {
		fmt.Fprintf(c, `<path fill="%s"%s d="%s"><title>%s</title></path>`, n.color(layers, i), border, c.area(tops[i]), escape(layers[i].label))
	}
}

// area is the path around what lies below the values.
func (c *canvas) area(values []int64) string {
	var b strings.Builder
	base := c.y(0)
	x, y := math.Round(c.columnX(0)*10)/10, base
	fmt.Fprintf(&b, "M%s,%s", px(x), px(y))
	for k, v := range values {
		nx, ny := math.Round(c.columnX(k)*10)/10, math.Round(c.y(float64(v))*10)/10
		fmt.Fprintf(&b, "l%s,%s", px(nx-x), px(ny-y))
		x, y = nx, ny
	}
	fmt.Fprintf(&b, "V%sZ", px(base))
	return b.String()
}

// color gives a few ranks a colour each, many two in turn, and those that the
// kernel killed red, unless it killed most of them.
func (n *Node) color(layers []layer, i int) string {
	switch r := layers[i].rank; {
	case r == nil:
		return colorRest
	case r.Fate == OOMKilled && 2*len(n.with(OOMKilled)) <= len(n.Ranks):
		return colorDead
	case len(layers) <= len(rankColors)+1:
		return rankColors[r.Rank%len(rankColors)]
	default:
		return manyColors[i%len(manyColors)]
	}
}

// limitLines draw the limit and what is used of it.
func (n *Node) limitLines(c *canvas, limit, used []int64) {
	if n.Limit == nil {
		return
	}
	if n.showsUse() {
		fmt.Fprintf(c, `<path fill="none" stroke="%s" stroke-width="1.4" d="%s"/>`, colorInk, c.curve(used))
	}
	if float64(n.Limit.LimitBytes) <= c.top {
		fmt.Fprintf(c, `<path fill="none" stroke="%s" stroke-width="2" d="%s"/>`, colorLimit, c.curve(limit))
		y := c.y(float64(n.Limit.LimitBytes))
		c.text(plotWidth-marginRight+6, y, "start", colorLimit, "limit "+size(n.Limit.LimitBytes))
	} else if n.Limit.LimitBytes < blackboxUnlimited {
		c.text(plotWidth-marginRight+6, marginTop+10, "start", colorLimit, "↑ limit "+size(n.Limit.LimitBytes))
	}
}

// curve is the path through the values that are known.
func (c *canvas) curve(values []int64) string {
	var b strings.Builder
	cmd := "M"
	for k, v := range values {
		if v >= 0 {
			fmt.Fprintf(&b, "%s%s,%s", cmd, px(c.columnX(k)), px(c.y(float64(v))))
			cmd = "L"
		}
	}
	return b.String()
}

// events mark changes of the level above the picture and ends of ranks in it.
func (n *Node) events(c *canvas) {
	const most, labelWidth = 300, 130
	drawn := 0
	for _, r := range n.Ranks {
		for _, t := range r.Transitions {
			if t.At.Before(c.from) || t.At.After(c.to) || drawn == most {
				continue
			}
			drawn++
			fmt.Fprintf(c, `<path d="M%s,%dl-4,-7h8z" fill="%s"><title>rank %d: %s to %s at %s: %s</title></path>`, px(c.x(t.At)), marginTop,
				levelColors[min(t.To, level.Critical)], r.Rank, t.From, t.To, clock(t.At), escape(t.Reason))
		}
	}
	for _, e := range []struct {
		fate  Fate
		color string
	}{{Ended, colorFaint}, {Crashed, "#6b3fa0"}, {OOMKilled, colorLimit}} {
		ranks := n.with(e.fate)
		ranks = slices.DeleteFunc(ranks, func(r *Rank) bool { return r.EndedAt.Before(c.from) || r.EndedAt.After(c.to) })
		for _, r := range ranks {
			x := c.x(r.EndedAt)
			if e.fate == Ended {
				c.line(x, marginTop, x, plotHeight-below, fmt.Sprintf(`stroke="%s" stroke-dasharray="2 3"`, e.color))
			} else {
				c.line(x, marginTop-14, x, plotHeight-below, fmt.Sprintf(`stroke="%s" stroke-width="1.6"`, e.color))
			}
		}
		for len(ranks) > 0 && e.fate != Ended { // those that ended close together share a label
			k := 1
			for k < len(ranks) && c.x(ranks[k].EndedAt)-c.x(ranks[k-1].EndedAt) < labelWidth {
				k++
			}
			c.text(c.x(ranks[k-1].EndedAt)+4, marginTop-18, "end", e.color, fmt.Sprintf("%s %s", rankList(numbers(ranks[:k])), e.fate))
			ranks = ranks[k:]
		}
	}
}

// legend names the layers.
func (n *Node) legend(c *canvas, layers []layer, used []int64) {
	x := float64(marginLeft)
	entry := func(color, label string) {
		fmt.Fprintf(c, `<rect x="%s" y="4" width="10" height="10" rx="2" fill="%s"/>`, px(x), color)
		c.text(x+14, 13, "start", colorInk, label)
		x += 14 + 6.6*float64(len(label)) + 14
	}
	if len(layers) <= len(rankColors)+1 {
		for i, l := range layers {
			entry(n.color(layers, i), l.label)
		}
	} else {
		entry(manyColors[0], fmt.Sprintf("%d ranks, %s lowest", len(n.Ranks), rankList([]int{n.Ranks[0].Rank})))
		if killed := len(n.with(OOMKilled)); killed > 0 && 2*killed <= len(n.Ranks) {
			entry(colorDead, "OOM-killed")
		}
		if layers[0].rank == nil {
			entry(colorRest, layers[0].label)
		}
	}
	if n.showsUse() {
		entry(colorInk, "used under the limit")
	}
}

// phases draw the stretches of the program below the axis, as the lowest rank
// that has any marked them.
func (n *Node) phases(c *canvas) {
	i := slices.IndexFunc(n.Ranks, func(r *Rank) bool { return len(r.Phases) > 0 })
	if i < 0 {
		return
	}
	r := n.Ranks[i]
	var free [maxPhaseRows]float64 // the x from which on a row is free
	rows := 0
	for _, p := range r.Phases {
		end := p.End
		if end.IsZero() {
			end = r.EndedAt
		}
		if end.Before(c.from) || p.Start.After(c.to) {
			continue
		}
		x1, x2 := c.x(p.Start), c.x(end)
		row := slices.IndexFunc(free[:], func(x float64) bool { return x <= x1+0.5 })
		if row < 0 || x2-x1 < 1 {
			continue
		}
		free[row] = x2
		rows = max(rows, row+1)
		y := float64(plotHeight + row*phaseRow)
		fmt.Fprintf(c, `<rect x="%s" y="%s" width="%s" height="%d" rx="2" fill="#dfe7ef"/>`, px(x1), px(y), px(x2-x1), phaseRow-2)
		if name := p.Name; 6.6*float64(len(name)) < x2-x1-6 {
			c.text(x1+4, y+11, "start", colorInk, name)
		}
	}
	if rows > 0 {
		c.text(marginLeft-8, plotHeight+11, "end", colorFaint, "phase")
		c.height += rows*phaseRow + 4
	}
}
