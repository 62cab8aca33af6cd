import Foundation
import SanguineModel
import Synchronization

/// A call under way, for those who wait for its answer.
final class CallFlight: Sendable {
    let outcome = OneShot<Data>()
    /// Whether a caller waits for the answer, or is about to.
    let isWanted: Mutex<Bool>
    /// What a queued call rests for; `nil` while it does not rest.
    let rest = Mutex<OneShot<Void>?>(nil)
    /// Whether it was ever sent, or is not to be.
    private let start: Mutex<Start>

    private enum Start {
        case waiting
        case sent
        case withdrawn
    }

    init(isWanted: Bool, mayHaveBeenSent: Bool) {
        self.isWanted = Mutex(isWanted)
        start = Mutex(mayHaveBeenSent ? .sent : .waiting)
    }

    var isWithdrawn: Bool { start.withLock { $0 == .withdrawn } }

    /// It is about to be sent; returns whether it still may.
    func sends() -> Bool {
        start.withLock { start in
            if start == .waiting { start = .sent }
            return start == .sent
        }
    }

    /// It is not to be sent; returns whether it never was.
    func withdraw() -> Bool {
        let isWithdrawn = start.withLock { start in
            if start == .waiting { start = .withdrawn }
            return start == .withdrawn
        }
        if isWithdrawn { wake() }
        return isWithdrawn
    }

    /// Whether a caller waits for the answer, or is about to.
    var isAwaited: Bool { isWanted.withLock { $0 } }

    func wake() { rest.withLock { $0 }?.resolve(.success(())) }
}

/// A call that was begun, and its answer.
struct BegunCall<Output: Codable & Sendable>: Sendable {
    let key: String
    let flight: CallFlight
    let caller: FunctionCaller

    /// The answer, as soon as it is there.
    ///
    /// The call is open until its output was decoded: another version of the app may read what
    /// this one cannot.
    nonisolated(nonsending) func value() async throws(SanguineError) -> FunctionResult<Output> {
        let body: Data
        do throws(SanguineError) {
            body = try await flight.outcome.value()
        } catch {
            if error == .cancelled { caller.left(flight) } else { await caller.given(key) }
            throw error
        }
        let result = try WireCoding.decode(FunctionResult<Output>.self, from: body)
        await caller.given(key)
        return result
    }
}
