import Dispatch

/// Does pieces of work one after the other, behind the back of whoever hands them in.
package protocol SerialQueue: Sendable {
    /// Does the work later, after all that was handed in before it.
    func async(_ work: @escaping @Sendable () -> Void)

    /// Does the work after all that was handed in before it, and returns then.
    func sync(_ work: () -> Void)
}

/// A queue of the system's, on a thread of its own.
struct BackgroundQueue: SerialQueue {
    private let queue: DispatchQueue

    /// - Parameter label: What it is called in the debugger.
    init(_ label: String) { queue = DispatchQueue(label: label, qos: .utility) }

    func async(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    func sync(_ work: () -> Void) { queue.sync(execute: work) }
}
