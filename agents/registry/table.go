package registry

import "strings"

// npmPackage is a package in an exact version. In name and program, {arch} stands for npm's
// word for this processor, {musl} for "-musl" where that is the C library, and {baseline}
// for "-baseline" on processors without AVX2.
type npmPackage struct {
	name     string
	version  string
	kinds    []Kind
	program  string // the program's path in the package
	node     bool   // node runs the program
	variable string // the environment variable with the program's path
	check    bool   // Install runs the program with --version
}

var (
	native  = []Kind{KindNative}
	process = []Kind{KindProcess}
	both    = []Kind{KindNative, KindProcess}
)

// agents is the table, in the order of lists. These versions were tried. After a change run
// make agent-locks and make test-agents.
var agents = []Agent{
	{
		ID: "claude", Name: "Claude Code",
		packages: []npmPackage{
			{name: "@agentclientprotocol/claude-agent-acp", version: "0.100.0", kinds: process, program: "dist/index.js", node: true},
			{
				name: "@anthropic-ai/claude-agent-sdk-linux-{arch}{musl}", version: "0.3.316", kinds: native, program: "claude",
				variable: "CLAUDE_CODE_EXECUTABLE", check: true,
			},
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
		packages: []npmPackage{
			{name: "@agentclientprotocol/codex-acp", version: "2.6.0", kinds: process, program: "dist/index.js", node: true},
			{name: "@openai/codex", version: "0.166.0", kinds: native, program: "bin/codex.js", variable: "CODEX_PATH", check: true},
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
		args: []string{"acp"},
		packages: []npmPackage{
			{name: "opencode-linux-{arch}{baseline}{musl}", version: "1.18.33", kinds: both, program: "bin/opencode", check: true},
		},
		names:    [][]string{{"opencode", "acp"}},
		provider: []provider{anthropic, openai},
		setting:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1"},
		Note:     "Its models come from the configured providers, and are known once it runs.",
		Capabilities: Capabilities{
			ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, FileAttachments: true, SessionLifecycle: true,
			ErrorEvents: true, MCPTools: true, StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{modes("build=Build", "plan=Plan")},
	},
	{
		ID: "amp", Name: "Amp",
		names:        [][]string{{"amp-acp"}},
		provider:     []provider{anthropic},
		Note:         "No ACP adapter of it is on npm: amp-acp runs if it is on PATH, and was not tried.",
		noteIfAbsent: true,
		Capabilities: Capabilities{
			ToolCalls: true, ToolResults: true, TextMessages: true, ErrorEvents: true, MCPTools: true,
		},
		Options: []Option{models("amp-default=Default"), modes("default=Default", "bypass=Bypass")},
	},
	{
		ID: "pi", Name: "Pi",
		packages: []npmPackage{
			{name: "pi-acp", version: "0.0.34", kinds: process, program: "dist/index.js", node: true},
			{name: "@earendil-works/pi-coding-agent", version: "0.81.1", kinds: native, program: "dist/cli.js", variable: "PI_ACP_PI_COMMAND", check: true},
		},
		names: [][]string{{"pi-acp"}},
		node:  22,
		Note:  "Needs Node.js 22 or newer. PI_ACP_PI_COMMAND names another pi. One older than 0.81 never answers session/new.",
		Capabilities: Capabilities{
			ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, SessionLifecycle: true, ErrorEvents: true,
			StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{models("default=Default")},
	},
	{
		ID: "cursor", Name: "Cursor",
		packages: []npmPackage{
			{name: "@blowmage/cursor-agent-acp", version: "0.7.1", kinds: process, program: "dist/bin/cursor-agent-acp.js", node: true},
		},
		needs:        "cursor-agent",
		needsRemedy:  "install Cursor's command line, as cursor.com/cli says, and log in with it",
		names:        [][]string{{"cursor-agent-acp"}},
		Note:         "Needs Cursor's own program, cursor-agent, on PATH, and a login with it.",
		noteIfAbsent: true,
		Capabilities: Capabilities{
			PlanMode: true, Permissions: true, ToolCalls: true, ToolResults: true, TextMessages: true, Images: true, SessionLifecycle: true,
			ErrorEvents: true, StreamingDeltas: true, ItemStarted: true,
		},
		Options: []Option{models("auto=Auto", "composer-1.5=Composer 1.5")},
	},
	{
		ID: "gemini", Name: "Gemini CLI",
		args: []string{"--experimental-acp"},
		packages: []npmPackage{
			{name: "@google/gemini-cli", version: "0.61.0", kinds: both, program: "bundle/gemini.js", node: true},
		},
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

// usual has the capabilities of every agent that speaks ACP.
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

// selection makes an option from value=name pairs. The first is the current one if current
// is empty.
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
