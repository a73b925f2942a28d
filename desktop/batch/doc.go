// Package batch acts on a desktop and observes it in one call: a list of actions in one turn of
// the desktop's input queue, and one observation when the screen has settled.
//
// # Usage
//
// Call [Do] with a [Batch], see the example. All actions are checked before the first one runs.
// [Act] runs one action.
//
// # Stopping
//
// A batch stops when another actor takes control and, unless Batch.StopOn says otherwise, at the
// first action that fails. It can also stop before its next action if a window has opened or
// closed, or if another window has the focus. [Result] has what each action did, why the batch
// stopped, and the observation after that.
//
// # Coordinates
//
// Coordinates are in the picture of Batch.Observation or, without one, on the screen. Result's
// positions are in the same coordinates, and Result.Observation names the picture for the next
// batch.
//
// # Concurrency
//
// Do may be called from any goroutine. No other caller's input runs between the actions of a
// batch, except during [Wait], the waits of [ChooseFile] and a [Call] that yields. A desktop
// without the method Exclusive cannot prevent other input, and cannot compare the screen: Do
// returns desktop.ErrUnsupported if Batch.Expect is ExpectSame or ExpectWindow.
//
// # Errors
//
// An *[ActionError] has the index of an action that is not valid. A *[ProgressError] has the
// number of actions that were done before the context ended or the desktop could not be
// observed. Errors of single actions are in the Result.
//
// # Requirements
//
// A desktop, and for its elements and its browser the implementations in [Target].
package batch
