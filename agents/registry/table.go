package registry

import "strings"

// source is a set of npm packages that make up an agent.
type source struct {
	packages []npmPackage
	args     []string // of the agent
	kind     Source
}

// npmPackage is one package of a source, exactly pinned. In name and program,
// {arch} stands for npm's word for this processor, {musl} for "-musl" where
// that is the C library, {baseline} for "-baseline" on processors without AVX2.
type npmPackage struct {
	name     string
	version  string
	kinds    []Kind
	program  string // what is run, below the package
	node     bool   // by node
	variable string // by which the process finds it
	check    bool   // --version tells whether it runs here
}

var (
	native  = []Kind{KindNative}
	process = []Kind{KindProcess}
	both    = []Kind{KindNative, KindProcess}
)

// agents is the table, in the order of lists. What runs where was tried with
// these versions; a newer one is a change of this file and a run of
// make agent-locks and make test-agents.
var agents = []Agent{
	{
		ID: "claude", Name: "Claude Code",
		sources: []source{
			{kind: SourceRegistry, packages: []npmPackage{
				{name: "@agentclientprotocol/claude-agent-acp", version: "0.100.0", kinds: process, program: "dist/index.js", node: true},
				{
					name: "@anthropic-ai/claude-agent-sdk-linux-{arch}{musl}", version: "0.3.316", kinds: native, program: "claude",
					variable: "CLAUDE_CODE_EXECUTABLE", check: true,
				},
			}},
			// Its name before it moved. It stays when its input ends.
			{kind: SourceFallback, packages: []npmPackage{
				{name: "@zed-industries/claude-agent-acp", version: "0.23.1", kinds: both, program: "dist/index.js", node: true},
			}},
		},
		names:    [][]string{{"claude-agent-acp"}, {"claude-code-acp"}},
		provider: []provider{anthropic},
		setting:  []string{"DISABLE_AUTOUPDATER=1"},
		Capabilities: Capabilities{
			Permissions: true, Questions: true, ToolCalls: true, ToolResults: true, TextMessages: true, MCPTools: true, StreamingDeltas: true,
		},
		Options: []Option{
			models("default=Default", "sonnet=Sonnet", "opus=Opus", "haiku=Haiku"),
			modes("default=Default", "acceptEdits=Accept Edits", "plan=Plan", "dontAsk=Don't Ask", "bypassPermissions=Bypass Permissions"),
		},
	},
	{
		ID: "codex", Name: "Codex",
		sources: []source{
			{kind: SourceRegistry, packages: []npmPackage{
				{name: "@agentclientprotocol/codex-acp", version: "2.6.0", kinds: process, program: "dist/index.js", node: true},
				{name: "@openai/codex", version: "0.166.0", kinds: native, program: "bin/codex.js", variable: "CODEX_PATH", check: true},
			}},
			// Its name before it moved. It stays when its input ends.
			{kind: SourceFallback, packages: []npmPackage{
				{name: "@zed-industries/codex-acp", version: "0.16.0", kinds: both, program: "bin/codex-acp.js", node: true},
			}},
		},
		names:    [][]string{{"codex-acp"}},
		provider: []provider{openai},
		Capabilities: Capabilities{
			PlanMode: true, Permissions: true, ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, FileAttachments: true,
			SessionLifecycle: true, ErrorEvents: true, Reasoning: true, Status: true, CommandExecution: true, FileChanges: true, MCPTools: true,
			StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{
			models("gpt-5.3-codex=GPT-5.3 Codex", "gpt-5.3-codex-spark=GPT-5.3 Codex Spark", "gpt-5.2-codex=GPT-5.2 Codex",
				"gpt-5.1-codex-max=GPT-5.1 Codex Max", "gpt-5.2=GPT-5.2", "gpt-5.1-codex-mini=GPT-5.1 Codex Mini"),
			modes("read-only=Read Only", "auto=Auto", "full-access=Full Access"),
			thoughts("high", "low=Low", "medium=Medium", "high=High", "xhigh=Extra High"),
		},
	},
	{
		ID: "opencode", Name: "OpenCode",
		sources: []source{{kind: SourceRegistry, args: []string{"acp"}, packages: []npmPackage{
			{name: "opencode-linux-{arch}{baseline}{musl}", version: "1.18.33", kinds: both, program: "bin/opencode", check: true},
		}}},
		names:    [][]string{{"opencode", "acp"}},
		provider: []provider{anthropic, openai},
		setting:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1"},
		Note:     "Its models are those of the configured providers, which it tells once it runs.",
		Capabilities: Capabilities{
			ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, FileAttachments: true, SessionLifecycle: true,
			ErrorEvents: true, MCPTools: true, StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{modes("build=Build", "plan=Plan")},
	},
	{
		ID: "amp", Name: "Amp",
		names:    [][]string{{"amp-acp"}},
		provider: []provider{anthropic},
		Note:     "Its adapter, amp-acp, is not on npm under a known name: it runs if it is on PATH, and was not tried.",
		note:     noteIfAbsent,
		Capabilities: Capabilities{
			ToolCalls: true, ToolResults: true, TextMessages: true, ErrorEvents: true, MCPTools: true,
		},
		Options: []Option{models("amp-default=Default"), modes("default=Default", "bypass=Bypass")},
	},
	{
		ID: "pi", Name: "Pi",
		sources: []source{{kind: SourceRegistry, packages: []npmPackage{
			{name: "pi-acp", version: "0.0.34", kinds: process, program: "dist/index.js", node: true},
			{name: "@earendil-works/pi-coding-agent", version: "0.74.2", kinds: native, program: "dist/cli.js", variable: "PI_ACP_PI_COMMAND", check: true},
		}}},
		names: [][]string{{"pi-acp"}},
		Note:  "With the pinned versions it answers initialize, but session/new stayed unanswered when that was tried. PI_ACP_PI_COMMAND names another pi.",
		Capabilities: Capabilities{
			ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, SessionLifecycle: true, ErrorEvents: true,
			StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{models("default=Default")},
	},
	{
		ID: "cursor", Name: "Cursor",
		names: [][]string{{"cursor-agent-acp"}},
		Note:  "Its adapter, cursor-agent-acp, is not on npm under a known name: it runs if it is on PATH, and was not tried.",
		note:  noteIfAbsent,
		Capabilities: Capabilities{
			PlanMode: true, Permissions: true, ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, SessionLifecycle: true,
			ErrorEvents: true, StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{models("auto=Auto", "composer-1.5=Composer 1.5")},
	},
	{
		ID: "gemini", Name: "Gemini CLI",
		sources: []source{{kind: SourceRegistry, args: []string{"--experimental-acp"}, packages: []npmPackage{
			{name: "@google/gemini-cli", version: "0.61.0", kinds: both, program: "bundle/gemini.js", node: true},
		}}},
		names:    [][]string{{"gemini", "--experimental-acp"}},
		provider: []provider{google},
		Note:     "It takes 6 to 11 seconds to answer the first time; its models and modes are known once it runs.",
		Capabilities: Capabilities{
			Permissions: true, ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, SessionLifecycle: true,
			ErrorEvents: true, MCPTools: true, StreamingDeltas: true, ItemStarted: true,
		},
	},
	{
		ID: "mock", Name: "Mock", BuiltIn: true,
		Note: "Built in, needs no key: for trying things out. Its first answer tells what it understands.",
		Capabilities: Capabilities{
			PlanMode: true, Permissions: true, Questions: true, ToolCalls: true, ToolResults: true, TextMessages: true, Images: true,
			FileAttachments: true, SessionLifecycle: true, ErrorEvents: true, Reasoning: true, Status: true, CommandExecution: true,
			FileChanges: true, MCPTools: true, StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{
			models("mock=Mock", "mock-fast=Mock Fast"), modes("normal=Normal", "plan=Plan"),
			thoughts("medium", "low=Low", "medium=Medium", "high=High"),
		},
	},
}

// usual is what every agent can do that speaks ACP.
var usual = Capabilities{
	Permissions: true, ToolCalls: true, ToolResults: true, TextMessages: true, ErrorEvents: true, StreamingDeltas: true, ItemStarted: true,
}

func models(choices ...string) Option {
	return selection(CategoryModel, "Model", "", choices)
}

func modes(choices ...string) Option {
	return selection(CategoryMode, "Mode", "", choices)
}

func thoughts(current string, choices ...string) Option {
	return selection(CategoryThoughtLevel, "Thought Level", current, choices)
}

// selection makes an option of value=name pairs. The first is the current one,
// unless another is named.
func selection(category, name, current string, choices []string) Option {
	o := Option{ID: category, Name: name, Category: category, Type: "select", Current: current}
	for _, c := range choices {
		value, label, _ := strings.Cut(c, "=")
		o.Choices = append(o.Choices, Choice{Value: value, Name: label})
	}
	if o.Current == "" {
		o.Current = o.Choices[0].Value
	}
	return o
}
