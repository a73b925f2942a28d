package registry

// Agent describes an agent.
type Agent struct {
	// ID is the agent's name in APIs, for example "claude".
	ID string

	// Name is the name for users, for example "Claude Code".
	Name string

	// Note is a remark for users who choose an agent. Empty: none.
	Note string

	Capabilities Capabilities

	// Options can be chosen for sessions.
	Options []Option

	// BuiltIn agents are part of this program, Custom ones were configured.
	// Neither is installed.
	BuiltIn, Custom bool

	packages     []npmPackage // nil: it is not installed from npm
	args         []string     // for the program of packages
	names        [][]string   // command lines on PATH, the best first
	provider     []provider   // it needs credentials of one of them; nil: it needs none
	setting      []string     // environment variables, unless they are set
	command      []string     // of a custom agent
	needs        string       // a program of the vendor that npm does not have; empty: none
	needsRemedy  string       // what to do if it is missing
	noteIfAbsent bool         // the note applies while the agent is not installed
	node         int          // the oldest version of Node.js that runs it; 0: oldestNode
}

// Capabilities describes an agent as sandbox-agent does.
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

// Option is an option of ACP that can be chosen for a session.
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

// Kind is the kind of an artifact.
type Kind string

// The kinds of artifacts: the agent itself, and its adapter that speaks ACP.
const (
	KindNative  Kind = "native_agent"
	KindProcess Kind = "agent_process"
)

// Source is the origin of an artifact.
type Source string

// The sources of artifacts.
const (
	SourceRegistry Source = "registry"   // npm's registry
	SourceLocal    Source = "local_path" // found on this machine
	SourceBuiltIn  Source = "builtin"    // part of this program
)

// Artifact is a program that was installed or found.
type Artifact struct {
	Kind    Kind
	Path    string
	Source  Source
	Version string // empty: unknown
}

// Installable reports whether the agent can be installed from npm.
func (a Agent) Installable() bool { return len(a.packages) > 0 }
