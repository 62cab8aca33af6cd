import Synchronization

@testable import Sanguine

/// Keeps what it is told; at the first event it can be made to wait.
final class RecordingObserver: ClientObserver {
    private let recorded = Mutex<[ClientEvent]>([])
    private let gate: Mutex<Void>

    init(gate: consuming Mutex<Void> = Mutex(())) { self.gate = gate }

    var events: [ClientEvent] { recorded.withLock { $0 } }

    func clientDid(_ event: ClientEvent) {
        gate.withLock { _ in }
        recorded.withLock { $0.append(event) }
    }

    /// Runs the body while the observer cannot go on.
    func whileStuck(_ body: () -> Void) { gate.withLock { _ in body() } }
}
