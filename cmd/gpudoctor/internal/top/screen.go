package top

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
)

// firstRow is the first screen row that shows a device. The below constant is the number of rows
// under the devices.
const (
	firstRow = 3
	below    = 1
)

const help = "←→ sort  r reverse  / search  m MIG instances  p problems only  ↑↓ scroll  q quit"

// screen displays the table of devices in a terminal.
type screen struct {
	tty    tcell.Screen
	source string
	zone   *time.Location
	styles [4]tcell.Style // by level

	page *page
	err  error // error of the last request, or nil

	sorted    string // heading of the column by which devices are sorted; if empty, they are sorted by place
	ascending bool
	unfolded  bool // Show MIG instances on separate lines.
	problems  bool // Show only devices with a problem.
	searching bool
	search    string
	first     int // row at the top
}

func newScreen(tty tcell.Screen, source string, zone *time.Location, color bool) *screen {
	s := &screen{tty: tty, source: source, zone: zone}
	s.styles[faint] = tcell.StyleDefault.Dim(true)
	s.styles[warning] = tcell.StyleDefault.Bold(true)
	s.styles[alarm] = tcell.StyleDefault.Bold(true).Underline(true)
	if color {
		s.styles[warning] = tcell.StyleDefault.Foreground(tcell.ColorYellow)
		s.styles[alarm] = tcell.StyleDefault.Foreground(tcell.ColorRed).Bold(true)
	}
	return s
}

// The run method shows responses and processes keys until the user quits or ctx is done.
func (s *screen) run(ctx context.Context, answers <-chan response) {
	events, quit := make(chan tcell.Event), make(chan struct{})
	defer close(quit)
	go s.tty.ChannelEvents(events, quit)
	for {
		s.draw()
		select {
		case <-ctx.Done():
			return
		case a := <-answers:
			if s.err = a.err; a.err == nil {
				s.page = a.page
			}
		case event, open := <-events:
			if !open {
				return
			}
			switch e := event.(type) {
			case *tcell.EventResize:
				s.tty.Sync()
			case *tcell.EventKey:
				if !s.press(e.Key(), e.Rune()) {
					return
				}
			}
		}
	}
}

// press processes a key. The result is false if the user quits.
func (s *screen) press(key tcell.Key, char rune) bool {
	if key == tcell.KeyCtrlC {
		return false
	}
	if s.searching {
		s.edit(key, char)
		return true
	}
	_, height := s.tty.Size()
	s.first += map[tcell.Key]int{
		tcell.KeyUp: -1, tcell.KeyPgUp: -(height - firstRow - below), tcell.KeyHome: -s.first,
		tcell.KeyDown: +1, tcell.KeyPgDn: +(height - firstRow - below), tcell.KeyEnd: math.MaxInt32 - s.first,
	}[key]
	switch key {
	case tcell.KeyEscape:
		if s.search == "" && !s.problems {
			return false
		}
		s.search, s.problems = "", false
	case tcell.KeyLeft:
		s.choose(-1)
	case tcell.KeyRight:
		s.choose(+1)
	case tcell.KeyRune:
		switch char {
		case 'q':
			return false
		case '<':
			s.choose(-1)
		case '>':
			s.choose(+1)
		case 'r':
			s.ascending = !s.ascending
		case 'm':
			s.unfolded = !s.unfolded
		case 'p':
			s.problems = !s.problems
		case '/':
			s.searching = true
		}
	default:
	}
	return true
}

// The edit method processes a key while the user types a search.
func (s *screen) edit(key tcell.Key, char rune) {
	switch key {
	case tcell.KeyEnter:
		s.searching = false
	case tcell.KeyEscape:
		s.searching, s.search = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		_, size := utf8.DecodeLastRuneInString(s.search)
		s.search = s.search[:len(s.search)-size]
	case tcell.KeyCtrlU:
		s.search = ""
	case tcell.KeyRune:
		s.search += string(char)
	default:
	}
	s.first = 0
}

// The choose method changes the sort order. The possible orders are the order by place, and the
// order by each visible column. In the list of possible orders, choose advances by the given number
// of steps from the current order.
func (s *screen) choose(step int) {
	order := []string{""}
	for _, c := range s.layout().columns {
		order = append(order, c.heading)
	}
	at := max(0, slices.Index(order, s.sorted))
	s.sorted = order[(at+step+len(order))%len(order)]
	s.ascending, s.first = false, 0
}

// layout contains the size of the screen, the width of the device names, and the visible columns.
type layout struct {
	width, height int
	names         int // width of the device names
	columns       []*column
}

func (s *screen) layout() layout {
	l := layout{names: len("device")}
	l.width, l.height = s.tty.Size()
	if s.page == nil {
		return l
	}
	for _, d := range s.page.Devices {
		l.names = max(l.names, utf8.RuneCountInString(s.name(d)))
	}
	l.names = min(l.names, l.width/3)
	l.columns = fittingColumns(s.page.Devices, l.width, l.names)
	return l
}

// name returns the name of a device, preceded by its node. If the device's instances are not on
// separate lines, their number follows the name. For an instance, name returns the indented
// instance number and the profile.
func (s *screen) name(d *device) string {
	if d.board != nil {
		return strings.TrimRight("  "+d.instanceNumber()+" "+d.Profile, " ")
	}
	name := strings.Trim(d.Node+"/"+d.label(), "/")
	if n := len(d.instances); n > 0 && !s.unfolded {
		name += fmt.Sprintf(" [%d]", n)
	}
	return name
}

// rows returns the sorted devices that match the search and, if only problems are shown, have a
// problem. Instances follow their board. A board is also included if one of its instances matches.
func (s *screen) rows() []*device {
	words := strings.Fields(strings.ToLower(s.search))
	passes := func(d *device) bool {
		text := d.searchText()
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return !s.problems || len(d.Problems) > 0
	}
	var boards []*device
	kept := map[*device][]*device{}
	for _, d := range s.page.Devices {
		if d.board != nil {
			continue
		}
		for _, i := range d.instances {
			if passes(i) {
				kept[d] = append(kept[d], i)
			}
		}
		if len(kept[d]) > 0 || passes(d) {
			boards = append(boards, d)
		}
	}
	slices.SortFunc(boards, s.compare)
	if !s.unfolded {
		return boards
	}
	var out []*device
	for _, d := range boards {
		slices.SortFunc(kept[d], s.compare)
		out = append(append(out, d), kept[d]...)
	}
	return out
}

// compare compares two devices by the selected column and then by place. Devices without a value in
// the column come last.
func (s *screen) compare(a, b *device) int {
	at := slices.IndexFunc(columns, func(c column) bool { return c.heading == s.sorted })
	if at < 0 {
		if s.ascending {
			a, b = b, a
		}
		return cmp.Compare(a.place, b.place)
	}
	va, vb := columns[at].rank(a), columns[at].rank(b)
	switch {
	case math.IsNaN(va) && math.IsNaN(vb):
	case math.IsNaN(va):
		return +1
	case math.IsNaN(vb):
		return -1
	case va != vb && s.ascending:
		return cmp.Compare(va, vb)
	case va != vb:
		return cmp.Compare(vb, va)
	}
	return cmp.Compare(a.place, b.place)
}

func (s *screen) draw() {
	s.tty.Clear()
	defer s.tty.Show()
	l := s.layout()
	s.drawText(0, 0, l.width, s.title(), tcell.StyleDefault.Bold(true))
	foot, style := help, tcell.StyleDefault.Dim(true)
	switch {
	case s.searching:
		foot, style = "search: "+s.search+"_", tcell.StyleDefault
	case s.err != nil:
		foot, style = s.source+": "+s.err.Error(), s.styles[alarm]
	case s.search != "" || s.problems:
		foot = s.filters() + "  (Esc shows all)  " + help
	}
	s.drawText(0, l.height-1, l.width, foot, style)
	if s.page == nil {
		return
	}
	s.drawText(0, 1, l.width, s.summary(), s.styles[plain])
	s.header(&l)
	rows := s.rows()
	room := max(0, l.height-firstRow-below)
	s.first = max(0, min(s.first, len(rows)-room))
	for i, d := range rows[s.first:min(len(rows), s.first+room)] {
		s.row(firstRow+i, &l, d)
	}
}

func (s *screen) filters() string {
	var on []string
	if s.problems {
		on = append(on, "problems only")
	}
	if s.search != "" {
		on = append(on, "search: "+s.search)
	}
	return strings.Join(on, ", ")
}

func (s *screen) title() string {
	if s.page == nil {
		return "gpudoctor top  " + s.source + "  waiting for the first response"
	}
	window := "waiting for the first window"
	if s.page.Newest > 0 {
		window = fmt.Sprintf("window of %s until %s", time.Duration(s.page.Window*1e9), instant(s.page.Newest).In(s.zone).Format(time.TimeOnly))
	}
	return "gpudoctor top  " + s.source + "  " + window
}

// summary returns the banners, and the number of devices and problems.
func (s *screen) summary() string {
	nodes := map[string]bool{}
	boards, instances, throttled, pressed, errors, lost := 0, 0, 0, 0, 0, 0
	add := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for _, d := range s.page.Devices {
		nodes[d.Cluster+"\n"+d.Node] = true
		add(&boards, d.Parent == "")
		add(&instances, d.Parent != "")
		add(&throttled, d.has("throttled"))
		add(&pressed, d.has("pressure"))
		add(&errors, d.has("xid"))
		add(&lost, d.has("lost"))
	}
	text := fmt.Sprintf("%s, %s, %s: %d throttled, %d under memory pressure, %d with XID errors, %d lost",
		Counted(boards, "device"), Counted(instances, "MIG instance"), Counted(len(nodes), "node"), throttled, pressed, errors, lost)
	for _, b := range slices.Backward(s.page.Banners) {
		text = b.Title.in(s.zone) + " " + b.Text.in(s.zone) + "  " + text
	}
	return text
}

func (s *screen) header(l *layout) {
	style := func(heading string) tcell.Style {
		if heading == s.sorted {
			return tcell.StyleDefault.Bold(true).Reverse(true)
		}
		return tcell.StyleDefault.Bold(true)
	}
	s.drawText(0, firstRow-1, l.names, "device", style(""))
	x := l.names
	for _, c := range l.columns {
		x += 1 + c.width
		s.drawText(x-len(c.heading), firstRow-1, l.width, c.heading, style(c.heading))
	}
	s.drawText(x+2, firstRow-1, l.width, "holder", tcell.StyleDefault.Bold(true))
}

func (s *screen) row(y int, l *layout, d *device) {
	style := s.styles[plain]
	if d.Lost {
		style = s.styles[faint]
	}
	s.drawText(0, y, l.names, truncate(s.name(d), l.names), style)
	folded := !s.unfolded && len(d.instances) > 0
	x := l.names
	for _, c := range l.columns {
		text, level := c.cell(d, folded)
		text = truncate(text, c.width)
		x += 1 + c.width
		s.drawText(x-utf8.RuneCountInString(text), y, l.width, text, s.styles[level])
	}
	held := holdersText(d.holders(folded), max(0, l.width-x-2))
	if d.Lost {
		held = "no data"
	}
	s.drawText(x+2, y, l.width, held, style)
}

// drawText writes text in row y, from column x up to, but not including, the end column.
func (s *screen) drawText(x, y, end int, text string, style tcell.Style) {
	for _, r := range text {
		if x >= end {
			return
		}
		s.tty.SetContent(x, y, r, nil, style)
		x++
	}
}
