import Foundation
package import SanguineModel
import Synchronization

/// The next event for a reader of a streamed call.
package enum CallEvent: Sendable {
    /// Parts, and the index of the first one.
    case parts(first: Int64, [String])
    /// The end of the call; its index follows that of the last part.
    ///
    /// A failure is temporary: the same key returns the call's end later.
    case end(Int64, Result<StoredAnswer, Problem>)
    /// No part arrived for a while.
    case idle
}

/// A reader of a call, which receives the parts of its answer from an index on, and then its end.
///
/// All readers receive the same parts: from the run while it is active, from the storage later. A
/// text answer in one piece has one part; other such answers have none.
///
/// Invariant: each index is delivered once, in order, and the end once. The end follows all parts:
/// if the storage cannot be read, the read is retried.
///
/// Mutable state: `state`, guarded by its mutex; there is one caller at a time.
package final class CallEventStream: Sendable {
    private enum Source {
        case live(RunningCall)
        case stored(run: Identifier?, StoredAnswer)
    }

    private struct State {
        var index: Int64
        var hasEnded = false
        var isClosed = false
        /// The rest of an answer in one piece.
        var piece: [String]?
    }

    /// The stored parts from a reader's index on.
    private enum Stored {
        case parts([String])
        /// There are no more parts; the answer has `count` of them.
        case none(count: Int64)
        case failed
    }

    private let source: Source
    private let authority: Authority
    private let permit: SharedPool.Permit?
    private let delay: any Clock<Duration>
    private let ping: RepeatingTimer?
    private let number: UInt64
    private let state: Mutex<State>

    /// Follows a running call.
    init(
        _ call: RunningCall,
        after index: Int64?,
        _ authority: Authority,
        _ permit: SharedPool.Permit,
        pingInterval: Duration,
        deadlines: Deadlines,
        delay: any Clock<Duration>
    ) {
        source = .live(call)
        self.authority = authority
        self.permit = permit
        self.delay = delay
        state = Mutex(State(index: (index ?? -1) + 1))
        call.readerJoined()
        let log = call.sharedRun.log
        let number = log.makeNumber()
        self.number = number
        ping = RepeatingTimer(every: pingInterval, deadlines) { log.wakeWithoutParts(number) }
    }

    /// Delivers a call that has ended.
    init(
        _ answer: StoredAnswer,
        run: Identifier?,
        after index: Int64?,
        _ authority: Authority,
        delay: any Clock<Duration>
    ) {
        source = .stored(run: run, answer)
        self.authority = authority
        self.delay = delay
        permit = nil
        ping = nil
        number = 0
        state = Mutex(State(index: (index ?? -1) + 1))
    }

    deinit { close() }

    /// The answer, if the call has already ended.
    package var stored: StoredAnswer? {
        if case .stored(_, let answer) = source { answer } else { nil }
    }

    /// Waits for the next event; `nil` after the end, and in a cancelled task.
    package func next() async -> CallEvent? {
        guard !Task.isCancelled, !state.withLock({ $0.hasEnded || $0.isClosed }) else { return nil }
        switch source {
        case .live(let call): return await next(of: call)
        case .stored(let run, let answer): return await next(of: answer, run)
        }
    }

    /// Stops reading.
    package func close() {
        let isFirst = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard isFirst else { return }
        ping?.cancel()
        permit?.release()
        guard case .live(let call) = source else { return }
        call.sharedRun.log.wakeWithoutParts(number)
        call.sharedRun.readerLeft()
    }

    // MARK: - Running calls

    private func next(of call: RunningCall) async -> CallEvent? {
        // A call that was settled separately has ended, even if its run continues.
        switch call.ending.value {
        case .success(let answer): return await next(of: answer.stored, call.run)
        case .failure(let problem): return end(.failure(problem))
        case nil: break
        }
        let index = state.withLock { $0.index }
        switch await call.sharedRun.log.next(at: index, for: number) {
        case .parts(let texts):
            if let event = event(with: call.visibleParts(texts, at: index)) { return event }
            return await afterEnd(of: call)
        case .idle:
            let isClosed = state.withLock { $0.isClosed }
            return call.ending.value == nil && !isClosed ? .idle : await next()
        case .stored:
            guard case .parts(let texts) = await stored(call.sharedRun.id) else {
                return await rest()
            }
            if let event = event(with: call.visibleParts(texts, at: index)) { return event }
            return await afterEnd(of: call)
        case .ended:
            return await afterEnd(of: call)
        }
    }

    private func afterEnd(of call: RunningCall) async -> CallEvent? {
        _ = await call.ending.wait()
        return await next()
    }

    // MARK: - Ended calls

    private func next(of answer: StoredAnswer, _ run: Identifier?) async -> CallEvent? {
        guard let run else { return await piece(of: answer) }
        switch await stored(run, through: answer.parts) {
        case .parts(let texts): return event(with: texts)
        case .none(let count): return end(.success(answer), at: answer.parts ?? count)
        case .failed: return await rest()
        }
    }

    /// Delivers an answer in one piece, and then its end.
    private func piece(of answer: StoredAnswer) async -> CallEvent? {
        var piece = state.withLock { $0.piece }
        if piece == nil {
            let text = await WireBody.perform(answer.body.count, for: nil) {
                Self.text(answer)
            }
            piece = text.map { [$0] } ?? []
        }
        let (rest, count) = state.withLock { [piece] state in
            let piece = state.piece ?? piece ?? []
            state.piece = piece
            return (Array(piece.dropFirst(Int(state.index))), Int64(piece.count))
        }
        return event(with: rest) ?? end(.success(answer), at: count)
    }

    /// Delivers the end.
    ///
    /// A reader may have seen more parts than were stored before a crash, so the index follows the
    /// last stored part.
    private func end(
        _ end: Result<StoredAnswer, Problem>,
        at count: Int64? = nil
    ) -> CallEvent {
        state.withLock { state in
            state.hasEnded = true
            if let count { state.index = count }
            return .end(state.index, end)
        }
    }

    /// Returns the next stored parts.
    private func stored(_ run: Identifier, through end: Int64? = nil) async -> Stored {
        let index = state.withLock { $0.index }
        if let end, index >= end { return .none(count: end) }
        let rows: [PartsRow]
        do throws(Problem) {
            rows = try await authority.parts(of: run, from: index, limit: Self.rowsAtOnce)
        } catch {
            return .failed
        }
        guard let first = rows.first?.first else { return .none(count: 0) }
        let texts = rows.flatMap(\.parts)
        var rest = texts.dropFirst(Int(max(0, index - first)))
        if let end { rest = rest.prefix(Int(end - index)) }
        return rest.isEmpty ? .none(count: first + Int64(texts.count)) : .parts(Array(rest))
    }

    /// Waits before the storage is read again.
    private func rest() async -> CallEvent {
        try? await delay.sleep(for: Self.restTime)
        return .idle
    }

    private func event(with texts: [String]) -> CallEvent? {
        guard !texts.isEmpty else { return nil }
        return state.withLock { state in
            defer { state.index += Int64(texts.count) }
            return .parts(first: state.index, texts)
        }
    }

    /// Returns the text of an answer in one piece.
    private static func text(_ answer: StoredAnswer) -> String? {
        guard answer.status == 200,
            let body = try? JSONParser.parse(answer.body, limits: .stored).value
        else { return nil }
        return body["output"]?.string
    }

    /// The number of rows of parts that are read at a time; each covers a quarter of a second.
    private static let rowsAtOnce = 16
    /// The delay before a failed read of the storage is retried.
    private static let restTime = Duration.seconds(1)
}

/// Calls back at an interval until it is cancelled.
///
/// Mutable state: `ticket`, guarded by its mutex; `nil` after cancellation.
private final class RepeatingTimer: Sendable {
    private let interval: Duration
    private let deadlines: Deadlines
    private let callBack: @Sendable () -> Void
    private let ticket = Mutex<Deadlines.Ticket?>(nil)

    init(
        every interval: Duration,
        _ deadlines: Deadlines,
        _ callBack: @escaping @Sendable () -> Void
    ) {
        self.interval = interval
        self.deadlines = deadlines
        self.callBack = callBack
        ticket.withLock { $0 = next() }
    }

    deinit { cancel() }

    func cancel() {
        let last = ticket.withLock { ticket in
            defer { ticket = nil }
            return ticket
        }
        if let last { deadlines.cancel(last) }
    }

    private func next() -> Deadlines.Ticket {
        deadlines.add(at: deadlines.moment(after: interval)) { [weak self] in self?.ring() }
    }

    private func ring() {
        let goesOn = ticket.withLock { ticket in
            guard ticket != nil else { return false }
            ticket = next()
            return true
        }
        if goesOn { callBack() }
    }
}
