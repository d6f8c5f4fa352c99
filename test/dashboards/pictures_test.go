package dashboards

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Pictures use Grafana's layout, which is 24 columns wide. Sizes are in pixels unless noted
// otherwise. A panel lists the series with the highest values first. If not all series fit, the
// panel shows the number of omitted series, such as "and 3 more".
const (
	column, row = 50, 30
	// charWidth is the average character width in the small font.
	charWidth = 5.6
	// maxSeries is the maximum number of series lines in a panel.
	maxSeries   = 12
	legendLines = 4
	// pictureLimit is the maximum size of a picture, in bytes.
	pictureLimit = 200_000
	// pictureSteps is the number of points per line.
	pictureSteps = 60
)

// pictureStyle sets the background color too, so pictures are readable on both light and dark
// pages.
const pictureStyle = `<style>
text{font:11px sans-serif;fill:#24292e}.t{font-weight:600;font-size:13px}.r{font-weight:600;font-size:15px}.n{font-size:28px}.m{fill:#656d76}
.b{fill:#f1f3f5}.p{fill:#fff;stroke:#d8dde2}.g{stroke:#e3e6e9}.e{fill:#e3e6e9}polyline{fill:none;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#d5d9df}.m{fill:#9aa3ad}.b{fill:#111217}.p{fill:#181b1f;stroke:#2c3036}.g{stroke:#2c3036}.e{fill:#2c3036}}
</style>
`

// palette contains colors with sufficient contrast on both light and dark backgrounds.
var palette = []string{"#3b82f6", "#22a35a", "#d97706", "#e0455a", "#a259d9", "#0d9aa8", "#b8860b", "#d6589f", "#6b7cff", "#7a9a01", "#c2410c", "#64748b"}

var thresholdColors = map[string]string{"green": "#22a35a", "orange": "#d97706", "red": "#e0455a", "blue": "#3b82f6"}

// series is one of the series that a query returns. A series from an instant query has one point.
type series struct {
	name   string
	column string // in a table
	labels map[string]string
	times  []float64 // seconds
	values []float64
}

func (s series) last() float64 { return s.values[len(s.values)-1] }

// results runs a panel's queries the way Grafana does and returns the resulting series.
func (p *prometheus) results(t *testing.T, shown *panel, from, to time.Time) []series {
	t.Helper()
	var all []series
	for _, target := range shown.Targets {
		query := url.Values{"query": {substitute(target.Expr)}}
		path := "query?"
		if !target.Instant {
			path = "query_range?"
			query.Set("start", strconv.FormatInt(from.Unix(), 10))
			query.Set("end", strconv.FormatInt(to.Unix(), 10))
			query.Set("step", strconv.FormatFloat(math.Ceil(to.Sub(from).Seconds()/pictureSteps), 'f', 0, 64))
		}
		var data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
				Values [][2]any
			}
		}
		p.API(t, path+query.Encode(), &data)
		for _, result := range data.Result {
			one := series{name: legend(target.LegendFormat, result.Metric), column: "Value", labels: result.Metric}
			if len(shown.Targets) > 1 {
				one.column += " #" + target.RefID
			}
			if target.Instant {
				result.Values = [][2]any{result.Value}
			}
			for _, point := range result.Values {
				value, err := strconv.ParseFloat(point[1].(string), 64)
				require.NoError(t, err)
				if !math.IsNaN(value) {
					one.times, one.values = append(one.times, point[0].(float64)), append(one.values, value)
				}
			}
			if len(one.values) > 0 {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b series) int {
		if shown.Type == "table" {
			return cmp.Compare(fmt.Sprint(a.labels), fmt.Sprint(b.labels))
		}
		return cmp.Or(cmp.Compare(slices.Max(b.values), slices.Max(a.values)), cmp.Compare(a.name, b.name))
	})
	return all
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

func legend(format string, labels map[string]string) string {
	return strings.TrimSpace(legendLabel.ReplaceAllStringFunc(format, func(match string) string { return labels[strings.Trim(match, "{}")] }))
}

// picture draws a dashboard as an SVG image. picture calls the shows function to get each panel's
// series.
func picture(d *dashboard, shows func(*panel) []series) string {
	bottom := 0
	for i := range d.Panels {
		bottom = max(bottom, d.Panels[i].GridPos.Y+d.Panels[i].GridPos.H)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d">`+"\n%[3]s"+`<rect class="b" width="100%%" height="100%%"/>`+"\n",
		24*column, bottom*row, pictureStyle)
	for i := range d.Panels {
		p := &d.Panels[i]
		c := canvas{b: &b, panel: p, x: float64(p.GridPos.X*column + 3), y: float64(p.GridPos.Y*row + 3), w: float64(p.GridPos.W*column - 6), h: float64(p.GridPos.H*row - 6)}
		if p.Type == "row" {
			c.text("r", 2, 18, p.Title, c.w)
			continue
		}
		fmt.Fprintf(&b, `<rect class="p" x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="3"/>`+"\n", c.x, c.y, c.w, c.h)
		c.text("t", 10, 19, p.Title, c.w)
		all := shows(p)
		switch {
		case len(all) == 0:
			c.text("m", c.w/2-35, c.h/2+8, p.FieldConfig.Defaults.NoValue, c.w)
		case p.Type == "timeseries":
			c.lines(all)
		case p.Type == "bargauge":
			c.bars(all)
		case p.Type == "table":
			c.table(all)
		default:
			style := ""
			if color := p.color(all[0].last(), ""); color != "" {
				style = ` style="fill:` + color + `"`
			}
			fmt.Fprintf(&b, `<text class="n" text-anchor="middle" x="%.0f" y="%.0f"%s>%s</text>`+"\n",
				c.x+c.w/2, c.y+c.h/2+18, style, html.EscapeString(p.format(all[0].last())))
		}
	}
	return b.String() + "</svg>\n"
}

// canvas is the area in which a panel is drawn.
type canvas struct {
	b          *strings.Builder
	panel      *panel
	x, y, w, h float64
}

// The text method writes a string at a position relative to the panel. If the string is too long,
// its middle is omitted, because names usually differ at the beginning or the end.
func (c *canvas) text(class string, x, y float64, text string, width float64) {
	runes, room := []rune(text), max(4, int(width/charWidth))
	if len(runes) > room {
		runes = slices.Concat(runes[:room/2], []rune("…"), runes[len(runes)-(room-room/2-1):])
	}
	fmt.Fprintf(c.b, `<text class="%s" x="%.0f" y="%.0f">%s</text>`+"\n", class, c.x+x, c.y+y, html.EscapeString(string(runes)))
}

func (c *canvas) more(hidden int, y float64) {
	if hidden > 0 {
		c.text("m", 10, y, fmt.Sprintf("and %d more", hidden), c.w)
	}
}

func (c *canvas) lines(all []series) {
	low, high := math.Inf(1), math.Inf(-1)
	from, to := math.Inf(1), math.Inf(-1)
	for _, s := range all {
		low, high = min(low, slices.Min(s.values)), max(high, slices.Max(s.values))
		from, to = min(from, s.times[0]), max(to, s.times[len(s.times)-1])
	}
	if limit := c.panel.FieldConfig.Defaults.Min; limit != nil {
		low = *limit
	}
	if limit := c.panel.FieldConfig.Defaults.Max; limit != nil {
		high = *limit
	}
	if high <= low {
		high = low + 1
	}
	if to <= from {
		to = from + 1
	}
	shown := all[:min(len(all), maxSeries)]
	named := min(len(shown), legendLines)
	left, top, bottom := c.x+58, c.y+32, c.y+c.h-22-float64(named+1)*14
	for i := range 3 {
		at := bottom - float64(i)*(bottom-top)/2
		fmt.Fprintf(c.b, `<path class="g" d="M%.0f %.0fH%.0f"/>`+"\n", left, at, c.x+c.w-10)
		c.text("m", 8, at-c.y+4, c.panel.format(low+float64(i)*(high-low)/2), 52)
	}
	c.text("m", 58, bottom-c.y+14, "0 s", 60)
	c.text("m", c.w-45, bottom-c.y+14, fmt.Sprintf("%.0f s", to-from), 60)
	step := to - from
	for _, s := range shown {
		for i := 1; i < len(s.times); i++ {
			step = min(step, s.times[i]-s.times[i-1])
		}
	}
	for i, s := range shown {
		color, open := palette[i%len(palette)], false
		for k := range s.times {
			if !open {
				fmt.Fprintf(c.b, `<polyline style="stroke:%s" points="`, color)
				open = true
			}
			y := bottom - (min(max(s.values[k], low), high)-low)/(high-low)*(bottom-top)
			fmt.Fprintf(c.b, "%.0f,%.0f ", left+(s.times[k]-from)/(to-from)*(c.x+c.w-10-left), y)
			// Interrupt the line where no data was observed.
			if k == len(s.times)-1 || s.times[k+1]-s.times[k] > 1.5*step {
				c.b.WriteString(`"/>` + "\n")
				open = false
			}
		}
		if i < named {
			y := c.h - 8 - float64(named-i)*14
			fmt.Fprintf(c.b, `<rect x="%.0f" y="%.0f" width="12" height="3" fill="%s"/>`+"\n", c.x+10, c.y+y-5, color)
			c.text("", 28, y, s.name, c.w-40)
		}
	}
	c.more(len(all)-named, c.h-7)
}

func (c *canvas) bars(all []series) {
	high := 0.0
	for _, s := range all {
		high = max(high, s.last())
	}
	if limit := c.panel.FieldConfig.Defaults.Max; limit != nil {
		high = *limit
	}
	const each = 30
	shown := min(len(all), int((c.h-45)/each))
	for i, s := range all[:shown] {
		y, full := 38+float64(i*each), c.w-100
		c.text("", 10, y, s.name, c.w-20)
		fmt.Fprintf(c.b, `<rect class="e" x="%.0f" y="%.0f" width="%.0f" height="10"/>`+"\n", c.x+10, c.y+y+4, full)
		fmt.Fprintf(c.b, `<rect x="%.0f" y="%.0f" width="%.0f" height="10" fill="%s"/>`+"\n",
			c.x+10, c.y+y+4, full*min(1, s.last()/max(high, 1e-9)), c.panel.color(s.last(), palette[0]))
		c.text("", c.w-80, y+13, c.panel.format(s.last()), 75)
	}
	c.more(len(all)-shown, c.h-7)
}

// table draws a table with a row for each set of labels and a column for each query.
func (c *canvas) table(all []series) {
	names, hidden := map[string]string{}, map[string]bool{"__name__": true}
	for _, transformation := range c.panel.Transformations {
		maps.Copy(names, transformation.Options.RenameByName)
		maps.Copy(hidden, transformation.Options.ExcludeByName)
	}
	columns, values := map[string]int{}, map[string]int{}
	cells := map[string]map[string]string{}
	for _, s := range all {
		shown := maps.Clone(s.labels)
		maps.DeleteFunc(shown, func(label, _ string) bool { return hidden[label] })
		for label, text := range shown {
			columns[label] = max(columns[label], len(cmp.Or(names[label], label)), len(text))
		}
		line := fmt.Sprint(shown)
		if cells[line] == nil {
			cells[line] = shown
		}
		if !hidden[s.column] {
			name := cmp.Or(names[s.column], s.column)
			values[s.column] = max(len(name), 9)
			cells[line][s.column] = format(c.panel.unit(name), s.last())
		}
	}
	order := slices.Concat(slices.Sorted(maps.Keys(columns)), slices.Sorted(maps.Keys(values)))
	maps.Copy(columns, values)
	total := 0
	for _, name := range order {
		columns[name] = min(columns[name], 40)
		total += columns[name] + 2
	}
	each := min(charWidth, (c.w-20)/float64(total))
	line := func(class string, y float64, cell func(string) string) {
		x := 10.0
		for _, name := range order {
			width := float64(columns[name]+2) * each
			c.text(class, x, y, cell(name), 0.88*(width-4)) // IDs have wider characters than names
			x += width
		}
	}
	line("m", 38, func(name string) string { return cmp.Or(names[name], name) })
	lines := slices.Sorted(maps.Keys(cells))
	shown := min(len(lines), int((c.h-60)/18))
	for i, of := range lines[:shown] {
		line("", 58+float64(i)*18, func(name string) string { return cells[of][name] })
	}
	c.more(len(lines)-shown, c.h-7)
}

// unit returns the unit of a table column.
func (p *panel) unit(column string) string {
	unit := p.FieldConfig.Defaults.Unit
	for _, override := range p.FieldConfig.Overrides {
		for _, property := range override.Properties {
			if override.Matcher.Options == column && property.ID == "unit" {
				unit = fmt.Sprint(property.Value)
			}
		}
	}
	return unit
}

// The color method returns the color of the highest threshold that the value reaches.
func (p *panel) color(value float64, otherwise string) string {
	color := otherwise
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			color = cmp.Or(thresholdColors[step.Color], otherwise)
		}
	}
	return color
}

func (p *panel) format(value float64) string { return format(p.FieldConfig.Defaults.Unit, value) }

func format(unit string, value float64) string {
	scaled := func(base float64, units ...string) string {
		i := 0
		for ; math.Abs(value) >= base && i < len(units)-1; i++ {
			value /= base
		}
		return strconv.FormatFloat(value, 'g', 3, 64) + " " + units[i]
	}
	switch unit {
	case "percentunit":
		return strconv.FormatFloat(math.Round(value*1000)/10, 'f', -1, 64) + " %"
	case "bytes":
		return scaled(1024, "B", "KiB", "MiB", "GiB", "TiB")
	case "Bps":
		return scaled(1000, "B/s", "kB/s", "MB/s", "GB/s", "TB/s")
	case "hertz":
		return scaled(1000, "Hz", "kHz", "MHz", "GHz")
	case "watt":
		return scaled(1000, "W", "kW", "MW")
	case "joule":
		return scaled(1000, "J", "kJ", "MJ", "GJ")
	case "s":
		return scaled(60, "s", "min")
	case "celsius":
		return strconv.FormatFloat(value, 'f', 0, 64) + " °C"
	case "ops":
		return strconv.FormatFloat(value, 'g', 2, 64) + " /s"
	default:
		return strings.TrimSpace(scaled(1000, "", "k", "M"))
	}
}

func pictureFile(d *dashboard) string {
	return root + "/docs/dashboards/" + strings.TrimSuffix(d.file, ".json") + ".svg"
}

// The draw function draws every dashboard, using data from a Prometheus server. If the -update flag
// is set, the function also replaces the pictures in docs/.
func draw(t *testing.T, server *prometheus, from, to time.Time) {
	t.Helper()
	all := dashboards(t)
	for i := range all {
		d := &all[i]
		svg := picture(d, func(p *panel) []series {
			found := server.results(t, p, from, to)
			assert.NotEmpty(t, found, "%s %s: nothing to draw", d.file, p.Title)
			return found
		})
		assert.Less(t, len(svg), pictureLimit, d.file)
		if *update {
			require.NoError(t, os.WriteFile(pictureFile(d), []byte(svg), 0o600))
		}
	}
}

// If a panel is added, renamed, or moved, the dashboard's picture must be updated. The test does
// not compare the values in the picture, which differ from run to run.
func TestEveryDashboardHasAPictureOfItsPanels(t *testing.T) {
	readme := string(read(t, examplesDir+"/grafana/README.md"))
	all := dashboards(t)
	for i := range all {
		d := &all[i]
		content := read(t, pictureFile(d))
		assert.Less(t, len(content), pictureLimit, d.file)
		assert.Contains(t, readme, strings.TrimPrefix(pictureFile(d), root+"/docs/"), "README.md shows %s", d.file)
		empty := picture(d, func(*panel) []series { return nil })
		assert.Equal(t, titles(t, empty), titles(t, string(content)),
			"%s: doc.go says how it is drawn", d.file)
	}
}

// titles returns the position and text of each panel title and row title in a picture.
func titles(t *testing.T, svg string) []string {
	t.Helper()
	var found []string
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" || (start.Attr[0].Value != "t" && start.Attr[0].Value != "r") {
			continue
		}
		text, err := decoder.Token()
		require.NoError(t, err)
		found = append(found, fmt.Sprint(start.Attr[1].Value, ",", start.Attr[2].Value, " ", string(text.(xml.CharData))))
	}
}

// The lowest value must be drawn at the bottom and the highest at the top. Where no data was
// observed, nothing must be drawn.
func TestPicturesShowWhatQueriesReturn(t *testing.T) {
	low, high := 0.0, 1.0
	d := dashboard{Panels: []panel{{Type: "timeseries", Title: "A & B"}, {Type: "stat", Title: "C"}, {Type: "table", Title: "D"}, {Type: "stat", Title: "E"}}}
	for i := range d.Panels {
		d.Panels[i].GridPos.W, d.Panels[i].GridPos.H, d.Panels[i].GridPos.Y = 12, 8, 8*i
		d.Panels[i].FieldConfig.Defaults.NoValue, d.Panels[i].FieldConfig.Defaults.Unit = "not observed", "percentunit"
		d.Panels[i].FieldConfig.Defaults.Min, d.Panels[i].FieldConfig.Defaults.Max = &low, &high
	}
	svg := picture(&d, func(p *panel) []series {
		switch {
		case p.Title == "E":
			return nil
		case p.Type == "timeseries":
			return []series{{name: "a", times: []float64{0, 1, 3, 4}, values: []float64{0, 1, 0.5, 0.5}}}
		case p.Type == "stat":
			return []series{{times: []float64{0}, values: []float64{0.125}}}
		case p.Type == "table":
			return []series{
				{column: "Value #A", labels: map[string]string{"pod": "x"}, values: []float64{0.25}},
				{column: "Value #B", labels: map[string]string{"pod": "x"}, values: []float64{0.75}},
			}
		}
		return nil
	})
	assert.Contains(t, svg, "A &amp; B")
	assert.Contains(t, svg, ">12.5 %<")
	assert.Equal(t, 1, strings.Count(svg, ">not observed<"))
	assert.Equal(t, 1, strings.Count(svg, ">x<"), "one line of the table")
	assert.Contains(t, svg, ">25 %<")
	assert.Contains(t, svg, ">75 %<")
	assert.Equal(t, [][]string{{"61,187 ", "192,35 "}, {"456,111 ", "587,111 "}}, polylines(svg))
}

func polylines(svg string) [][]string {
	var found [][]string
	for _, match := range regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		found = append(found, strings.SplitAfter(strings.TrimSuffix(match[1], " ")+" ", " ")[:2])
	}
	return found
}
