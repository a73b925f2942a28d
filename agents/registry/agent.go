package registry

// Agent is what is known of an agent before anything of it was started.
type Agent struct {
	// ID is its name everywhere: "claude".
	ID string

	// Name is for people: "Claude Code".
	Name string

	// Note is what a user should know before choosing it. Empty: nothing.
	Note string

	// Capabilities are what it can do.
	Capabilities Capabilities

	// Options are what can be chosen for its sessions.
	Options []Option

	// BuiltIn agents are part of this program, Custom ones were configured.
	// Neither is installed.
	BuiltIn, Custom bool

	sources  []source    // what installs it, the best first; nil: nothing does
	names    [][]string  // command lines on PATH, the best first
	provider []provider  // whose credentials it uses, any one of them; nil: it needs none
	setting  []string    // environment, unless it is set already
	command  []string    // of one that is configured, or built in
	note     noteOfAgent // where the note does not apply
}

// noteOfAgent says when an agent's note is left out.
type noteOfAgent int

const (
	noteAlways   noteOfAgent = iota
	noteIfAbsent             // only while it is not installed
)

// Capabilities are what an agent can do, as sandbox-agent lists it.
type Capabilities struct {
	PlanMode         bool `json:"planMode"`
	Permissions      bool `json:"permissions"`
	Questions        bool `json:"questions"`
	ToolCalls        bool `json:"toolCalls"`
	ToolResults      bool `json:"toolResults"`
	TextMessages     bool `json:"textMessages"`
	Images           bool `json:"images"`
	FileAttachments  bool `json:"fileAttachments"`
	SessionLifecycle bool `json:"sessionLifecycle"`
	ErrorEvents      bool `json:"errorEvents"`
	Reasoning        bool `json:"reasoning"`
	Status           bool `json:"status"`
	CommandExecution bool `json:"commandExecution"`
	FileChanges      bool `json:"fileChanges"`
	MCPTools         bool `json:"mcpTools"`
	StreamingDeltas  bool `json:"streamingDeltas"`
	ItemStarted      bool `json:"itemStarted"`
	SharedProcess    bool `json:"sharedProcess"`
}

// The categories of options.
const (
	CategoryModel        = "model"
	CategoryMode         = "mode"
	CategoryThoughtLevel = "thought_level"
)

// Option is something that can be chosen for a session, as ACP describes it.
type Option struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Category string   `json:"category"`
	Type     string   `json:"type"` // "select"
	Current  string   `json:"currentValue"`
	Choices  []Choice `json:"options"`
}

// Choice is a value of an option.
type Choice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Kind says what an artifact is.
type Kind string

// The kinds of artifacts: the agent itself, and what makes it speak ACP.
const (
	KindNative  Kind = "native_agent"
	KindProcess Kind = "agent_process"
)

// Source says where an artifact came from.
type Source string

// The sources of artifacts.
const (
	SourceRegistry Source = "registry"   // npm's, under the agent's usual name
	SourceFallback Source = "fallback"   // npm's, under an older name
	SourceLocal    Source = "local_path" // found on this machine
	SourceBuiltIn  Source = "builtin"    // part of this program
)

// Artifact is a program that an install made, or found.
type Artifact struct {
	Kind    Kind
	Path    string
	Source  Source
	Version string // empty: not known
}

// Installable tells whether npm has what makes up the agent.
func (a Agent) Installable() bool { return len(a.sources) > 0 }
