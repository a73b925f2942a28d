// Package accessibility reads the elements of the programs on a desktop, such as buttons and
// menus, over the accessibility bus (AT-SPI 2).
//
// # Usage
//
// Start connects to the bus of a desktop. Snapshot returns the elements that a Query selects,
// and Snapshot.Outline a text for models, with one line for each element:
//
//	@e12 button "Save" [812,40 64x28] focused
//
// See the example. GTK 3, Qt, LibreOffice, Java, Firefox and Chromium describe their elements.
// Do clicks an element, sets its text or selects it. Wait waits for elements. Roles and states
// have AT-SPI's names. Snapshots leave out containers without a name, and never have the text of
// password fields.
//
// # Lifetime
//
// A Tree lives until Close. A reference such as @e12 is valid while its element lives, and goes
// over to an element of the same role and name that takes its place. If the bus was restarted,
// the next call connects again, and all references are stale.
//
// # Concurrency
//
// All methods may be called from any goroutine. A query asks all programs concurrently. If a
// program hangs, the query takes its whole timeout, and Snapshot.Skipped names the program. The
// Tree bounds the time, the elements and the bytes that it takes from a program, because a
// program may claim anything: cycles, 2^30 children, texts of any length.
//
// # Errors
//
// The Err variables, which errors wrap: test with errors.Is. An argument that is not valid is an
// *InvalidError, a reference to an element that is gone a *StaleError, and an action that the
// element does not support a *RefusedError. Methods also return errors of package desktop.
//
// # Requirements
//
// The package at-spi2-core must be installed. Without it, Start returns ErrUnavailable. Qt
// needs QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1 in its environment, and Chromium the flag
// --force-renderer-accessibility.
package accessibility
