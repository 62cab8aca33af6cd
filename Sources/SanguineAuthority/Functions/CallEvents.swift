import Foundation
package import SanguineModel
import Synchronization

/// What a reader of a streamed call is given next.
package enum CallEvent: Sendable {
    /// Parts, and the index of the first.
    case parts(first: Int64, [String])
    /// The call's end, with its index: that of the part which would follow.
    case end(Int64, Result<StoredAnswer, Problem>)
    /// Nothing came for a while.
    case quiet
}

/// One reader of a call: gives the parts of its answer from a place on, and then its end.
///
/// The same parts come to every reader, whenever: from the run while it goes on, from the storage
/// afterwards. An answer that was made in one piece has one part, if it is a text.
///
/// Invariant: an index is given once, in order, and the end once.
///
/// Mutable state: `state`, guarded by the mutex; there is one caller at a time.
package final class CallEvents: Sendable {
    private enum Source {
        case live(RunningCall)
        case stored(run: Identifier?, StoredAnswer)
    }

    private struct State {
        var index: Int64
        var hasEnded = false
        var isClosed = false
        /// What is left of an answer in one piece.
        var piece: [String]?
    }

    private let source: Source
    private let authority: Authority
    private let place: SharedPool.Place?
    private let ping: Task<Void, Never>?
    private let number: UInt64
    private let state: Mutex<State>

    /// Follows a call that runs.
    init(
        _ call: RunningCall,
        after index: Int64?,
        _ authority: Authority,
        _ place: SharedPool.Place,
        pingInterval: Duration,
        delay: any Clock<Duration>
    ) {
        source = .live(call)
        self.authority = authority
        self.place = place
        state = Mutex(State(index: (index ?? -1) + 1))
        call.flight.readerJoined()
        let log = call.flight.log
        let number = log.makeReader()
        self.number = number
        ping = Task {
            while !Task.isCancelled {
                try? await delay.sleep(for: pingInterval)
                log.beQuiet(number)
            }
        }
    }

    /// Gives a call that has ended.
    init(_ answer: StoredAnswer, run: Identifier?, after index: Int64?, _ authority: Authority) {
        source = .stored(run: run, answer)
        self.authority = authority
        place = nil
        ping = nil
        number = 0
        state = Mutex(State(index: (index ?? -1) + 1))
    }

    deinit { close() }

    /// The answer, if the call has ended already.
    package var stored: StoredAnswer? {
        if case .stored(_, let answer) = source { answer } else { nil }
    }

    /// Waits for what comes next; `nil` after the end.
    package func next() async -> CallEvent? {
        guard !state.withLock({ $0.hasEnded || $0.isClosed }) else { return nil }
        switch source {
        case .live(let call): return await next(of: call)
        case .stored(let run, let answer): return await next(run, .success(answer))
        }
    }

    /// Reads no more.
    package func close() {
        let isFirst = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard isFirst else { return }
        ping?.cancel()
        place?.leave()
        guard case .live(let call) = source else { return }
        call.flight.log.beQuiet(number)
        call.flight.readerLeft()
    }

    private func next(of call: RunningCall) async -> CallEvent? {
        // A call that was settled by itself has ended, whatever its run does.
        if let ending = call.ending.value {
            return await next(call.flight.isStreamed ? call.flight.id : nil, ending.map(\.stored))
        }
        let index = state.withLock { $0.index }
        switch await call.flight.log.next(at: index, for: number) {
        case .parts(let texts): return give(texts)
        case .quiet:
            let isClosed = state.withLock { $0.isClosed }
            return call.ending.value == nil && !isClosed ? .quiet : await next()
        case .stored: return await stored(call.flight.id) ?? .quiet
        case .ended:
            _ = await call.ending.wait()
            return await next()
        }
    }

    /// What comes of a call that has ended.
    private func next(
        _ run: Identifier?,
        _ end: Result<StoredAnswer, Problem>
    ) async -> CallEvent? {
        if let run, let event = await stored(run) { return event }
        return state.withLock { state in
            if run == nil, state.piece == nil {
                state.piece = (try? end.get()).flatMap(Self.text).map { [$0] } ?? []
            }
            if let piece = state.piece, state.index < piece.count {
                defer { state.index = Int64(piece.count) }
                return .parts(first: state.index, Array(piece.dropFirst(Int(state.index))))
            }
            if let piece = state.piece { state.index = Int64(piece.count) }
            state.hasEnded = true
            return .end(state.index, end)
        }
    }

    /// The parts that follow, of those that are stored; `nil` if there are none.
    private func stored(_ run: Identifier) async -> CallEvent? {
        let index = state.withLock { $0.index }
        guard
            let rows = try? await authority.parts(of: run, from: index, limit: Self.rowsAtOnce),
            let first = rows.first?.first
        else { return nil }
        let texts = rows.flatMap { row in
            (try? JSONDecoder().decode([String].self, from: Data(row.texts))) ?? []
        }
        let rest = texts.dropFirst(Int(max(0, index - first)))
        if !rest.isEmpty { return give(Array(rest)) }
        // The reader has seen more than was stored before the server died.
        state.withLock { $0.index = min($0.index, first + Int64(texts.count)) }
        return nil
    }

    private func give(_ texts: [String]) -> CallEvent {
        state.withLock { state in
            defer { state.index += Int64(texts.count) }
            return .parts(first: state.index, texts)
        }
    }

    /// The text of an answer in one piece.
    private static func text(_ answer: StoredAnswer) -> String? {
        guard answer.status == 200,
            let body = try? JSONParser.parse(answer.body, limits: .init(values: .max)).value
        else { return nil }
        return body["output"]?.string
    }

    /// Rows of parts that are read at a time: a quarter of a second each.
    private static let rowsAtOnce = 16
}
