package report

import (
	"html/template"

	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// page is what the template shows, in its order.
type page struct {
	// Title of the document and of its first heading; Lead is the sentence below.
	Title, Lead string
	// Style is the text of the style sheet, StyleHash its source expression in the Content-Security-Policy.
	Style template.CSS
	// StyleHash is described at Style.
	StyleHash string
	// Figures are the most important numbers.
	Figures []figure
	// Bill compares what is paid.
	Bill bill
	// Maps show the nodes as areas.
	Maps []nodeMap
	// Pools are the NodePools before and after.
	Pools poolTable
	// Tables list nodes.
	Tables []section
	// Pending are the pods that cannot be placed.
	Pending pendingTable
	// Kept are the reasons for which nodes stay.
	Kept keptTable
	// Commitments are Savings Plans and Reserved Instances.
	Commitments []commitmentRow
	// Remarks are about the input: what was assumed, ignored and wrong.
	Remarks []remark
}

// figure is one number with its name.
type figure struct {
	Name, Value, Note string
	// Bad marks what a reader should look at.
	Bad bool
}

// segment is a part of a bar, from X, both in percent of the bar.
type segment struct {
	X, Width string
	// Class is the part's in the style sheet.
	Class string
}

// bill is a table of costs with a bar for each.
type bill struct {
	Rows []billRow
	// Legend names the parts of the bars that occur.
	Legend []legend
	// Footnotes say what the figures leave out.
	Footnotes []string
}

// billRow is one cost.
type billRow struct {
	Name     string
	Segments []segment
	Hour     string
	Month    string
	Parts    string
}

// legend is a part's name.
type legend struct{ Class, Name string }

// nodeMap is a picture of nodes: the width of an area is its nodes' price, its filled part what their pods request.
type nodeMap struct {
	Title string
	// Label describes the picture in words.
	Label string
	Areas []area
}

// area is the nodes of one instance type, zone and capacity type.
type area struct {
	// X and Width are percent of the picture.
	X, Width string
	// Top and Height are those of the filled part, in percent.
	Top, Height string
	Title       string
}

// poolTable lists NodePools.
type poolTable struct {
	Rows []poolRow
	// More says what is left out; empty for nothing.
	More string
}

// poolRow is a NodePool before and after.
type poolRow struct {
	Name                    string
	Nodes, NodesThen        int
	Cost, CostThen          string
	CPU, Memory             use
	CPUThen, MemoryThen     use
	NodesChange, CostChange string
}

// section is a heading with tables of nodes.
type section struct {
	ID, Heading, Text string
	Tables            []nodeTable
	// More says what is left out; empty for nothing.
	More string
}

// nodeTable lists nodes.
type nodeTable struct {
	Caption string
	// Signed tables have a column for what happens to the node.
	Signed bool
	Rows   []nodeRow
}

// nodeRow is a node, or the sum of several that are alike.
type nodeRow struct {
	// Sign is what happens to the node, Class the style of it.
	Sign, Class string
	Name        string
	// Sum means that the row stands for several nodes.
	Sum         bool
	Pool        string
	Type        string
	Zone        string
	Capacity    string
	Pods        int
	Workloads   string
	CPU, Memory use
	Price       string
	Parts       string
}

// use is a share as a bar and in words.
type use struct {
	// Known is false for nodes that have not reported what they have.
	Known bool
	// Width of the filled part, in percent of the bar.
	Width string
	// Percent is the share, such as 88%.
	Percent string
	// Of is requested and allocatable, such as 3.5 of 4.
	Of string
}

// pendingTable lists pods that cannot be placed.
type pendingTable struct {
	Rows []pendingRow
	More string
}

// pendingRow is a class of pods with the same reasons.
type pendingRow struct {
	Count     int
	Pods      string
	Workloads string
	Reasons   []reasonLine
	More      string
}

// reasonLine is one NodePool's reason.
type reasonLine struct{ NodePool, Code, Text string }

// keptTable lists why nodes stay.
type keptTable struct {
	Rows []keptRow
	More string
}

// keptRow is the nodes that stay for one reason.
type keptRow struct {
	Count  int
	Nodes  string
	Reason string
}

// commitmentRow is a Savings Plan or Reserved Instance.
type commitmentRow struct {
	ID, Kind, Amount, Left string
	Used                   use
}

// remark is one line about the input.
type remark struct{ Kind, Text string }

// notes are what the command prints on standard error beside a table.
type notes struct {
	// ignored counts objects of kinds that no simulation uses, by kind.
	ignored map[string]int
	// said are sentences about what was assumed.
	said []string
	// problems are those of objects that were left out, or read differently from what they say.
	problems []input.Problem
}
