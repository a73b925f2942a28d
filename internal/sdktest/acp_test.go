package sdktest

import "testing"

// TestACP uses the network transport of the Agent Client Protocol with the
// clients of the package that the protocol's makers publish.
func TestACP(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server does not have that transport")
	}
	modules := required(t)
	server := startServer(t, modules, Config{})
	runScripts(t, server, modules, "acp.test.mjs", "SDKTEST_CRASH="+crasher(t, server))
}
