import Synchronization

/// State behind a lock, whose changes a test can wait for.
///
/// Use it for custom fakes: each change resumes the callers whose conditions are met.
///
/// ```swift
/// final class FakePlayer: Player {
///     private let played = WatchedState<[Song]>([])
///
///     func play(_ song: Song) { played.withLock { $0.append(song) } }
///
///     func waitForSongs(_ count: Int) async throws {
///         try await played.wait(for: "\(count) songs") { $0.count >= count }
///     }
/// }
/// ```
///
/// Mutable state: `guarded`, protected by its mutex. Waiting callers are resumed without
/// holding it.
public final class WatchedState<State: Sendable>: Sendable {
    private enum Ending {
        case met
        case cancelled
        case late(State)
    }

    private struct Waiter {
        let number: UInt64
        let isMet: @Sendable (State) -> Bool
        let continuation: CheckedContinuation<Ending, Never>
    }

    private struct Guarded {
        var state: State
        var waiters: [Waiter] = []
        var lastNumber: UInt64 = 0
    }

    private let guarded: Mutex<Guarded>

    /// Creates state with an initial value.
    public init(_ state: State) { guarded = Mutex(Guarded(state: state)) }

    /// The current state.
    public var value: State { guarded.withLock { $0.state } }

    /// Reads or changes the state, and resumes the callers whose conditions are then met.
    ///
    /// - Parameter body: Called with the state, under the lock. It must not use the state's owner.
    /// - Returns: The body's result.
    /// - Throws: The body's error.
    @discardableResult
    public func withLock<Value: Sendable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let (result, met) = guarded.withLock { guarded -> (Result<Value, Failure>, [Waiter]) in
            let result: Result<Value, Failure>
            do throws(Failure) {
                result = .success(try body(&guarded.state))
            } catch {
                result = .failure(error)
            }
            guard !guarded.waiters.isEmpty else { return (result, []) }
            let met = guarded.waiters.filter { $0.isMet(guarded.state) }
            let numbers = Set(met.map(\.number))
            guarded.waiters.removeAll { numbers.contains($0.number) }
            return (result, met)
        }
        for waiter in met { waiter.continuation.resume(returning: .met) }
        return try result.get()
    }

    /// Returns when the state meets the condition, at once if it already does.
    ///
    /// - Parameters:
    ///   - awaited: The awaited condition, for the error: "2 held answers".
    ///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
    ///   - found: Describes the state after a timeout, for the error: "1 is held".
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - condition: The condition. It is evaluated under the lock, after each change.
    /// - Throws: ``WaitTimeout`` after the bound, `CancellationError` when the task is cancelled.
    public func wait(
        for awaited: String,
        within bound: Duration = TestingLimits.wait,
        found: @Sendable (State) -> String = { _ in "" },
        fileID: String = #fileID,
        line: Int = #line,
        until condition: @escaping @Sendable (State) -> Bool
    ) async throws {
        let number = guarded.withLock { guarded in
            guarded.lastNumber += 1
            return guarded.lastNumber
        }
        let ending = await withTaskCancellationHandler {
            await end(of: number, within: bound, condition)
        } onCancel: {
            end(number) { _ in .cancelled }
        }
        switch ending {
        case .met: return
        case .cancelled: throw CancellationError()
        case .late(let state): throw WaitTimeout(awaited, found: found(state), bound, fileID, line)
        }
    }

    /// Waits until the closure finds a value in the state, and returns the value.
    ///
    /// ```swift
    /// let first = try await played.first("a song") { $0.first }
    /// ```
    ///
    /// - Parameters:
    ///   - awaited: The awaited value, for the error.
    ///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - find: Returns the value, or `nil`. It is called under the lock, after each change.
    /// - Returns: The found value.
    /// - Throws: ``WaitTimeout`` after the bound, `CancellationError` when the task is cancelled,
    ///   and the closure's error.
    @discardableResult
    public func first<Found: Sendable>(
        _ awaited: String,
        within bound: Duration = TestingLimits.wait,
        fileID: String = #fileID,
        line: Int = #line,
        find: @escaping @Sendable (State) throws -> Found?
    ) async throws -> Found {
        let found = Finding<Found>()
        try await wait(for: awaited, within: bound, fileID: fileID, line: line) { state in
            found.look { try find(state) }
        }
        return try found.get()
    }

    private func end(
        of number: UInt64,
        within bound: Duration,
        _ condition: @escaping @Sendable (State) -> Bool
    ) async -> Ending {
        var deadline: Task<Void, Never>?
        let ending = await withCheckedContinuation { continuation in
            let waiter = Waiter(number: number, isMet: condition, continuation: continuation)
            let isMet = guarded.withLock { guarded in
                let isMet = condition(guarded.state)
                if !isMet { guarded.waiters.append(waiter) }
                return isMet
            }
            if isMet { return continuation.resume(returning: .met) }
            // The cancellation handler may have run before the waiter was added.
            if Task.isCancelled { return end(number) { _ in .cancelled } }
            deadline = Task {
                var patience = Patience(min(bound, TestingLimits.longestWait), isPolling: false)
                while (try? await patience.rest()) == true {}
                if !Task.isCancelled { end(number) { .late($0) } }
            }
        }
        deadline?.cancel()
        return ending
    }

    private func end(_ number: UInt64, _ ending: (State) -> Ending) {
        let ended = guarded.withLock { guarded -> (Waiter, Ending)? in
            guard let index = guarded.waiters.firstIndex(where: { $0.number == number })
            else { return nil }
            return (guarded.waiters.remove(at: index), ending(guarded.state))
        }
        if let (waiter, ending) = ended { waiter.continuation.resume(returning: ending) }
    }
}

/// The result of the last search in the state.
///
/// Mutable state: `result`, protected by its mutex.
private final class Finding<Found: Sendable>: Sendable {
    private let result = Mutex<Result<Found, any Error>?>(nil)

    func look(_ find: () throws -> Found?) -> Bool {
        let found = Result { try find() }
        switch found {
        case .success(nil): return false
        case .success(let value?): result.withLock { $0 = .success(value) }
        case .failure(let error): result.withLock { $0 = .failure(error) }
        }
        return true
    }

    func get() throws -> Found {
        guard let found = result.withLock({ $0 }) else { preconditionFailure("No result exists.") }
        return try found.get()
    }
}
