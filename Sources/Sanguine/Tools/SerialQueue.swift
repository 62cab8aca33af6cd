import Dispatch

/// Runs work in order, in the background.
package protocol SerialQueue: Sendable {
    /// Runs the work later, after all work that was submitted before it.
    func async(_ work: @escaping @Sendable () -> Void)

    /// Runs the work after all work that was submitted before it, and then returns.
    func sync(_ work: () -> Void)
}

/// A queue of the system, with its own thread.
struct BackgroundQueue: SerialQueue {
    private let queue: DispatchQueue

    /// - Parameter label: The queue's name in the debugger.
    init(_ label: String) { queue = DispatchQueue(label: label, qos: .utility) }

    func async(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    func sync(_ work: () -> Void) { queue.sync(execute: work) }
}
