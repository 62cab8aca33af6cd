import Foundation
import SanguineModel
import Synchronization

/// A call in progress, for the callers that wait for its answer.
final class CallInProgress: Sendable {
    let outcome = OneShot<Data>()
    /// Whether a caller waits for the answer, or is about to.
    let isWanted: Mutex<Bool>
    /// The signal that a queued call waits for; `nil` while it does not wait.
    let wakeSignal = Mutex<OneShot<Void>?>(nil)
    /// Whether the call waits, may have been sent, or was withdrawn.
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

    /// Marks it as sent; returns `false` if it was withdrawn.
    func sends() -> Bool {
        start.withLock { start in
            if start == .waiting { start = .sent }
            return start == .sent
        }
    }

    /// Withdraws it, if it was never sent; returns whether it is withdrawn.
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

    func wake() { wakeSignal.withLock { $0 }?.resolve(.success(())) }
}

/// A call that was begun, and its answer.
struct StartedCall<Output: Codable & Sendable>: Sendable {
    let key: String
    let callInProgress: CallInProgress
    let caller: FunctionCaller

    /// Waits for the answer.
    ///
    /// The call stays open until its output is decoded: another version of the app may be able to
    /// read an output that this one cannot.
    nonisolated(nonsending) func value() async throws(SanguineError) -> FunctionResult<Output> {
        let body: Data
        do throws(SanguineError) {
            body = try await callInProgress.outcome.value()
        } catch {
            if error == .cancelled {
                caller.left(callInProgress)
            } else {
                await caller.resultRead(key)
            }
            throw error
        }
        let result = try WireCoding.decode(FunctionResult<Output>.self, from: body)
        await caller.resultRead(key)
        return result
    }
}
