import Foundation
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Sending

extension SyncKeeper {
    /// Operations on their way.
    private struct Departure: Sendable {
        let flight: OutboxState.Flight
        let records: [OutboxState.Record]
        let operations: [PushedOperation]
        let sizes: [Int]
    }

    private static let schedule = RetrySchedule(attempts: .max, cap: RecordLimits.longestWait)

    /// Sends what waits and is not under way: each lane waits for its own flight alone.
    ///
    /// - Returns: What tells of the end of all that is under way; `nil` if nothing is.
    @discardableResult
    func kick() -> OneShot<Void>? {
        guard network != nil else { return nil }
        let (departures, outcome, mustTell) = guarded.withLock { guarded in
            guard guarded.isOpen, guarded.ending == nil else {
                return ([Departure](), nil as OneShot<Void>?, false)
            }
            let hasNoticed = notice(&guarded)
            var departures: [Departure] = []
            while let departure = depart(&guarded) { departures.append(departure) }
            if !departures.isEmpty {
                let sending = guarded.sending ?? Sending()
                guarded.sending = sending
                for departure in departures {
                    guarded.sending?.flights[departure.flight.number] = Task { [weak self] in
                        await self?.send(departure)
                    }
                }
            }
            return (departures, guarded.sending?.outcome, hasNoticed)
        }
        if mustTell { observers.changed(nil) }
        if !departures.isEmpty { tellOutbox() }
        return outcome
    }

    /// The next operations to send; `nil` if there are none.
    private func depart(_ guarded: inout Guarded) -> Departure? {
        guard let (flight, records) = guarded.state.takeOff() else { return nil }
        let rows = flight.sequences.compactMap { guarded.rows[$0] }
        return Departure(
            flight: flight,
            records: records,
            operations: rows.map(PushedOperation.init),
            sizes: rows.map(\.arguments.count)
        )
    }

    /// Sends one flight; the last one to end tells how all of them have.
    private func send(_ departure: Departure) async {
        let failure = await fly(departure)
        guarded.withLock { guarded in
            guard let sending = guarded.sending else { return }
            let number = departure.flight.number
            // A failure counts until something that left after it has landed.
            guard failure != nil || number > sending.lastBefore else { return }
            guarded.sending?.failure = failure
            guarded.sending?.lastBefore = sending.flights.keys.max() ?? number
        }
        kick()
        let ended = guarded.withLock { guarded -> Sending? in
            guarded.sending?.flights[departure.flight.number] = nil
            guard guarded.sending?.flights.isEmpty == true else { return nil }
            return guarded.sending.take()
        }
        guard let ended else { return }
        tellOutbox()
        outbox.tidyUpIfLong()
        ended.outcome.resolve(ended.failure.map { .failure($0) } ?? .success(()))
    }

    /// Something has happened that makes another try worth it.
    func wake() {
        guarded.withLock { guarded in
            guarded.state.wake()
            guarded.waking?.cancel()
            guarded.waking = nil
        }
        kick()
    }

    /// Returns what went wrong, if anything did.
    private func fly(_ departure: Departure) async -> SanguineError? {
        do {
            try outbox.write(departure.records)
        } catch {
            let error = SanguineError.store(.writeFailed("the outbox: \(error)"))
            failed(departure, error)
            return error
        }
        do throws(SanguineError) {
            let answer = try await push(departure)
            landed(departure, answer)
            return nil
        } catch {
            failed(departure, error)
            return error
        }
    }

    private func landed(_ departure: Departure, _ answer: PushAnswer) {
        let mustPull = take { guarded in
            try guarded.state.landed(departure.flight.number, answer, over: guarded.base)
        }
        if mustPull { pull() }
    }

    private func failed(_ departure: Departure, _ error: SanguineError) {
        let (failure, wasSent) = Self.verdict(on: error)
        guarded.withLock { guarded in
            guard guarded.ending == nil else { return }
            let number = departure.flight.number
            let waits = guarded.state.failed(number, failure, wasSent: wasSent)
            guard let failures = waits.values.max() else { return }
            var random = environment.random
            var wait = Self.schedule.backoff(afterFailures: failures, using: &random)
            if case .retryAfter(let wanted) = failure {
                let bounded = min(wanted, ClientLimits.longestPause)
                wait = max(wait, Self.schedule.later(bounded, using: &random))
            }
            guarded.waking?.cancel()
            guarded.waking = Task { [weak self, delay = environment.delay] in
                guard (try? await delay.sleep(for: wait)) != nil else { return }
                self?.wake()
            }
        }
        tellOutbox()
    }

    /// What a push's failure means, and whether the operations may be done.
    private static func verdict(
        on error: SanguineError
    ) -> (failure: OutboxState.Failure, wasSent: Bool) {
        switch error {
        case .transport(.offline), .store: (.retry, false)
        case .problem(let problem) where [401, 403].contains(problem.status):
            (.needsSignIn, false)
        case .problem(let problem):
            // A proxy's refusal may come after the server has done it.
            (
                error.retryAfter.map { .retryAfter($0) } ?? .retry,
                problem.code != .rateLimited && problem.code != .overloaded
            )
        default: (.retry, true)
        }
    }

    // MARK: - Requests

    /// Sends a flight in as many requests as its size needs.
    ///
    /// A request that the server cannot read is sent again one operation at a time, so that one
    /// that it will never take is found, refused, and blocks nothing behind it.
    private func push(_ departure: Departure) async throws(SanguineError) -> PushAnswer {
        var answer = PushAnswer(results: [], head: 0)
        for chunk in Self.chunks(departure.operations, departure.sizes) {
            do throws(SanguineError) {
                let part = try await post(chunk)
                answer.results += part.results
                answer.head = max(answer.head, part.head)
            } catch  where error.isUnreadable && chunk.count > 1 {
                let (results, failure) = await one(by: chunk)
                answer.results += results
                guard let failure else { continue }
                guard answer.results.isEmpty else { break }
                throw failure
            } catch  where error.isUnreadable {
                answer.results += Self.refusal(of: chunk, error)
            } catch {
                // What was answered is answered; the rest comes next, and fails then.
                guard answer.results.isEmpty else { break }
                throw error
            }
        }
        let sent = Set(departure.operations.map(\.id))
        guard answer.results.contains(where: { sent.contains($0.id) }) else {
            throw .decoding("PushAnswer: 'results' has none of the operations")
        }
        return answer
    }

    private func one(
        by operations: [PushedOperation]
    ) async -> (results: [PushResult], failure: SanguineError?) {
        var results: [PushResult] = []
        for operation in operations {
            do throws(SanguineError) {
                results += try await post([operation]).results
            } catch  where error.isUnreadable {
                results += Self.refusal(of: [operation], error)
            } catch {
                return (results, error)
            }
        }
        return (results, nil)
    }

    private func post(
        _ operations: [PushedOperation]
    ) async throws(SanguineError) -> PushAnswer {
        guard let network else { throw .notConfigured("'server'") }
        let body = PushRequest(device: try network.deviceId(), operations: operations)
        guard let json = try? WireCoding.encode(body) else {
            throw .problem(Problem(.malformedBody, "The operation cannot be written as JSON."))
        }
        return try await network.call.call(
            "POST",
            "/v1/sync/push",
            json: json,
            as: PushAnswer.self
        )
        .value
    }

    private static func chunks(
        _ operations: [PushedOperation],
        _ sizes: [Int]
    ) -> [[PushedOperation]] {
        var chunks: [[PushedOperation]] = []
        var bytes = 0
        for (operation, size) in zip(operations, sizes) {
            if chunks.isEmpty || bytes + size > RecordLimits.pushBytes {
                chunks.append([])
                bytes = 0
            }
            chunks[chunks.count - 1].append(operation)
            bytes += size
        }
        return chunks
    }

    private static func refusal(
        of operations: [PushedOperation],
        _ error: SanguineError
    ) -> [PushResult] {
        guard case .problem(let problem) = error else { return [] }
        return operations.map { PushResult(id: $0.id, status: .refused, problem: problem) }
    }
}

extension PushedOperation {
    fileprivate init(_ row: OutboxFile.Row) {
        let arguments = try? JSONDecoder().decode(JSONValue.self, from: row.arguments)
        self.init(
            id: row.id,
            sequence: row.sequence,
            lane: row.lane,
            mutator: row.name,
            arguments: arguments ?? .null
        )
    }
}

extension SanguineError {
    /// Whether the server says that it will never take the request as it is.
    ///
    /// The server, by its own codes: of a proxy's status none says something of an operation, but
    /// that it is too large.
    fileprivate var isUnreadable: Bool {
        guard case .problem(let problem) = self else { return false }
        let codes: [ProblemCode] = [
            .malformedBody, .malformedRequest, .unsupportedMediaType, .invalidContent,
        ]
        return problem.status == 413 || codes.contains(problem.code)
    }
}
