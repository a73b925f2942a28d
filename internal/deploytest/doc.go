// Package deploytest holds the tests of the guides in docs/deploy and of
// docs/first-steps.md; it has no code of its own.
//
// Each code block of a guide follows a comment that says what becomes of it:
//
//	<!-- TestNginx site -->      TestNginx uses the block, by the name site
//	<!-- not run: needs a domain -->
//
// The tests run the blocks with the real programs. Addresses, ports and paths
// are replaced by those that a test may use. Tests that take longer than a few
// seconds run with DESKHAND_DEPLOY=1, which make test-deploy sets.
package deploytest
