import Foundation
import OrderedCollections
import SanguineModel
import Synchronization

/// Drives record mutations: run over the replay, pushed to the authority, settled by the feed.
final class RecordMutationDriver: OutboxDriver {
    // No mutable state.
    private let records: UserRecords
    private let outbox: OutboxEngine
    private let call: ServerCall?
    /// Returns the id of the device that assigns the operations' sequence numbers.
    private let deviceId: @Sendable () throws(SanguineError) -> String

    /// Creates the driver; `call` is `nil` in a companion, and without a server.
    init(
        _ records: UserRecords,
        _ call: ServerCall?,
        deviceId: @escaping @Sendable () throws(SanguineError) -> String = {
            () throws(SanguineError) in throw .notConfigured("'server'")
        }
    ) {
        self.records = records
        outbox = records.outbox
        self.call = call
        self.deviceId = deviceId
    }

    // MARK: - Showing

    /// Performs a mutation, which is durable and visible when this returns.
    func perform(_ mutation: some RecordMutation) throws(SanguineError) -> Receipt {
        let name = type(of: mutation).name
        guard records.environment.schema.mutation(name) != nil else {
            throw .unregistered(name, type(of: mutation))
        }
        guard mutation.lane.isPlainText(of: WireLimits.laneCharacters) else {
            throw .problem(.badLane)
        }
        let row = OutboxFile.Row(
            id: records.environment.newId(),
            lane: mutation.lane,
            name: name,
            arguments: try OutboxFile.Row.arguments(of: mutation, .record)
        )
        call?.authorizer.allowSignIn()
        records.use()
        let superseding = mutation as? any Superseding
        return try outbox.perform(row, superseding) { contents throws(SanguineError) in
            let dryRunResult = try dryRun(mutation, row.id, contents)
            return { [self] row, contents, _ in
                let keys = admit(row, dryRunResult, to: &contents)
                return { [self] in
                    records.observers.changed(keys)
                    records.observers.applyNow(keys)
                }
            }
        }
    }

    private func dryRun(
        _ mutation: some RecordMutation,
        _ id: Identifier,
        _ contents: borrowing OutboxContents
    ) throws(SanguineError) -> Replay.DryRun {
        do {
            return try contents.state.replay.dryRun(mutation, id: id, over: contents.base)
        } catch let refusal as Refusal {
            throw .problem(refusal.problem)
        } catch {
            throw .store(.readFailed("\(error)"))
        }
    }

    func open(_ contents: inout OutboxContents) throws { try records.open(&contents) }

    func admit(_ row: OutboxFile.Row, to contents: inout OutboxContents) -> Shown {
        let keys = admit(row, nil, to: &contents)
        return { [records] in records.observers.changed(keys) }
    }

    private func admit(
        _ row: OutboxFile.Row,
        _ dryRunResult: Replay.DryRun?,
        to contents: inout OutboxContents
    ) -> Set<RecordKey> {
        let operation =
            dryRunResult.map {
                Replay.Operation(sequence: row.sequence, id: row.id, mutation: $0.mutation)
            } ?? records.operation(row)
        var item = OutboxState.Item(
            id: row.id,
            sequence: row.sequence,
            lane: row.lane,
            phase: row.phase
        )
        item.outcomeUnknown = row.outcomeUnknown
        item.epoch = row.epoch
        contents.rows[row.sequence] = row
        contents.revision += 1
        let actions = records.attempt(&contents) { contents in
            try contents.state.add(operation, as: item, dryRun: dryRunResult, over: contents.base)
        }
        guard let actions else {
            // It is sent anyway, and shown when the records can be read again.
            contents.state.outbox.add(item)
            return []
        }
        if contents.state.outbox.items[row.sequence] == nil {
            // The process ended after the base contained it, and before the outbox recorded that.
            contents.rows[row.sequence] = nil
            if !records.environment.isCompanion { try? outbox.file.write(actions.steps) }
        }
        return actions.changed
    }

    func discard(_ sequences: [Int64], from contents: inout OutboxContents) -> Shown {
        contents.revision += 1
        var keys: Set<RecordKey> = []
        for sequence in sequences {
            let actions = records.attempt(&contents) { contents in
                try contents.state.discard(sequence, over: contents.base)
            }
            keys.formUnion(actions??.changed ?? [])
        }
        guard !keys.isEmpty else { return {} }
        return { [records, keys] in
            records.observers.changed(keys)
            records.observers.applyNow(keys)
        }
    }

    func operation(of row: OutboxFile.Row) -> (any Mutation)? { records.operation(row).mutation }

    func checkRetry(_ row: OutboxFile.Row) throws(SanguineError) {}

    // MARK: - Sending

    var canSend: Bool { call != nil }

    func prepare(_ rows: [OutboxFile.Row]) -> [OutboxFile.Row] {
        guard records.environment.fault == .rewritesArguments else { return rows }
        return rows.map { row in
            guard records.environment.schema.mutation(row.name) != nil else { return row }
            var row = row
            let mutation = records.operation(row).mutation
            let arguments = try? OutboxFile.Row.arguments(of: mutation, .record)
            row.arguments = arguments ?? row.arguments
            return row
        }
    }

    func send(_ departure: OutboxSend) async throws(SanguineError) {
        var (answer, epoch) = try await push(departure)
        answer.results = answer.results.map { deferred($0, departure) }
        let missing = records.process { state, base in
            state.pushCompleted(departure.send.number, answer, epoch: epoch, over: base)
        }
        records.feed?.respond(to: missing)
    }

    /// Turns a refusal as unknown mutation or collection into a result that makes the outbox retry
    /// the operation.
    ///
    /// The app may be newer than the server for a while. After ``RecordLimits/deploymentWait``, the
    /// operation goes to the tray. A start time that is impossible, because the clock was wrong, is
    /// replaced by the current time.
    private func deferred(_ result: PushResult, _ departure: OutboxSend) -> PushResult {
        guard result.status == .refused, let problem = result.problem,
            problem.code.awaitsDeployment,
            let row = departure.rows.first(where: { $0.id == result.id })
        else { return result }
        let now = records.environment.clock.now()
        let known = row.deferredSince.flatMap { $0 <= now && $0.isPlausible ? $0 : nil }
        let since = known ?? now
        guard now < since + RecordLimits.deploymentWait else { return result }
        return PushResult(
            id: result.id,
            status: .unknown,
            head: since.millisecondsSince1970,
            problem: problem
        )
    }

    func verdict(on error: SanguineError, of departure: OutboxSend) -> OutboxVerdict {
        switch error {
        case .transport(.offline), .store: .failed(.retry, wasSent: false)
        case .problem(let problem) where [401, 403].contains(problem.status):
            .failed(.needsSignIn, wasSent: false)
        case .problem:
            // A proxy may have sent the request more than once, and this may answer only one copy.
            .failed(error.retryAfter.map { .retryAfter($0) } ?? .retry, wasSent: true)
        default: .failed(.retry, wasSent: true)
        }
    }

    func refused(_ departure: OutboxSend, _ problem: Problem) {}

    func rewritten(_ row: OutboxFile.Row, in contents: inout OutboxContents) -> Shown {
        contents.revision += 1
        let changed = records.attempt(&contents) { contents in
            try contents.state.rewrite(records.operation(row), over: contents.base)
        }
        guard let keys = changed, !keys.isEmpty else { return {} }
        return { [records] in
            records.observers.changed(keys)
            records.observers.applyNow(keys)
        }
    }

    func refuse(_ sequences: [Int64], _ problem: Problem) {
        let missing = records.process { state, base in
            state.refuse(sequences, problem, over: base)
        }
        records.feed?.respond(to: missing)
    }

    func notSent(_ sequences: [Int64]) {}

    func becameActive() {}

    // MARK: - Requests

    /// Sends operations in as many requests as their size needs.
    ///
    /// If the server cannot read a request, its operations are sent again one at a time. This way,
    /// one that the server never accepts is found and refused, and does not block those behind it.
    private func push(
        _ departure: OutboxSend
    ) async throws(SanguineError) -> (PushAnswer, Epoch?) {
        var answer = PushAnswer(results: [], head: 0)
        var epoch: Epoch?
        for chunk in Self.chunks(departure.rows) {
            do throws(SanguineError) {
                let (part, known) = try await post(chunk)
                // The results of an earlier epoch may be lost.
                if let epoch, epoch != known { answer.results = [] }
                epoch = known
                answer.results += part.results
                answer.head = max(answer.head, part.head)
            } catch  where error.isUnreadable && chunk.count > 1 {
                let (results, known, failure) = await one(by: chunk)
                if let epoch, epoch != known { answer.results = [] }
                epoch = known ?? epoch
                answer.results += results
                guard let failure else { continue }
                guard answer.results.isEmpty else { break }
                throw failure
            } catch  where error.isUnreadable {
                answer.results += Self.refusal(of: chunk, error)
            } catch {
                // The results so far count; the rest is sent next, and fails then.
                guard answer.results.isEmpty else { break }
                throw error
            }
        }
        let sent = Set(departure.rows.map(\.id))
        guard answer.results.contains(where: { sent.contains($0.id) }) else {
            throw .decoding("PushAnswer: 'results' has none of the sent operations")
        }
        return (answer, epoch)
    }

    private func one(
        by operations: [PushedOperation]
    ) async -> (results: [PushResult], epoch: Epoch?, failure: SanguineError?) {
        var results: [PushResult] = []
        var epoch: Epoch?
        for operation in operations {
            do throws(SanguineError) {
                let (part, known) = try await post([operation])
                if let epoch, epoch != known { results = [] }
                epoch = known
                results += part.results
            } catch  where error.isUnreadable {
                results += Self.refusal(of: [operation], error)
            } catch {
                return (results, epoch, error)
            }
        }
        return (results, epoch, nil)
    }

    private func post(
        _ operations: [PushedOperation]
    ) async throws(SanguineError) -> (PushAnswer, Epoch?) {
        guard let call else { throw .notConfigured("'server'") }
        let body = PushRequest(device: try deviceId(), operations: operations)
        let json = try WireCoding.encode(body, as: "the operations")
        let answer = try await call.call("POST", "/v1/sync/push", json: json, as: PushAnswer.self)
        let isIgnored = records.environment.fault == .ignoresEpochs
        return (answer.value, isIgnored ? nil : answer.epoch)
    }

    private static func chunks(_ rows: [OutboxFile.Row]) -> [[PushedOperation]] {
        var chunks: [[PushedOperation]] = []
        var bytes = 0
        for row in rows {
            if chunks.isEmpty || bytes + row.arguments.count > RecordLimits.pushBytes {
                chunks.append([])
                bytes = 0
            }
            chunks[chunks.count - 1].append(PushedOperation(row))
            bytes += row.arguments.count
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

extension Timestamp {
    /// Whether the time may come from a correct clock.
    ///
    /// Devices that start without a battery or a network may report 1970, or the year in which they
    /// were built.
    fileprivate var isPlausible: Bool {
        let firstOf2025 = Timestamp(millisecondsSince1970: 1_735_689_600_000)
        return self >= firstOf2025
    }
}

extension PushedOperation {
    fileprivate init(_ row: OutboxFile.Row) {
        let arguments = try? JSONValue(written: Array(row.arguments))
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
    /// Whether the server will never accept the request in its current form.
    ///
    /// Only the server's own codes count: a proxy's status says nothing about an operation, except
    /// that it is too large.
    fileprivate var isUnreadable: Bool {
        guard case .problem(let problem) = self else { return false }
        let codes: [ProblemCode] = [
            .malformedBody, .malformedRequest, .unsupportedMediaType, .invalidContent,
        ]
        return problem.status == 413 || codes.contains(problem.code)
    }
}
