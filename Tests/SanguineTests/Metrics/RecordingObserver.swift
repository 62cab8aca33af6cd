import Synchronization

@testable import Sanguine

/// Records the events that it receives, and can be blocked at the first one.
final class RecordingObserver: ClientObserver {
    private let recorded = Mutex<[ClientEvent]>([])
    private let gate: Mutex<Void>

    init(gate: consuming Mutex<Void> = Mutex(())) { self.gate = gate }

    var events: [ClientEvent] { recorded.withLock { $0 } }

    func clientDid(_ event: ClientEvent) {
        gate.withLock { _ in }
        recorded.withLock { $0.append(event) }
    }

    /// Runs the body while the observer is blocked.
    func whileStuck(_ body: () -> Void) { gate.withLock { _ in body() } }
}
