import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// The driver of mutations for any backend: shows them as effects on cache entries, sends them with
/// the app's closure, and settles them with values that are fetched afterwards.
///
/// Invariant: the cache records that a mutation was sent before its request leaves, and that it is
/// applied before anything is fetched for it.
///
/// Mutable state: `ids`, `accountChanged` and `purchased`, each protected by its mutex, which is
/// never held during another call.
final class RemoteMutationDriver: OutboxDriver {
    let settling: MutationSettling
    private let outbox: OutboxEngine
    private let queries: QueryCache
    /// The user's part of the cache.
    private let user: CacheScope
    /// Updates the models of these keys at once, if called on the main actor.
    private let applyNow: @Sendable ([QueryKey]) -> Void
    /// Moves models to the real ids.
    private let idsReplaced: @Sendable () -> Void
    private let types: [String: any RemoteMutation.Type]
    private let ids = Mutex(ReplacedIds())
    /// Called with the feed's number of a change of the account, before the answer is stored.
    private let accountChanged = Mutex<(@Sendable (FeedMark) -> Void)?>(nil)
    /// Called with the answer to a purchase, before callers that wait for it continue.
    private let purchased = Mutex<(@Sendable (CreditedPurchase, Identifier) -> Void)?>(nil)
    /// Called with a refused change of the account that came from the device's settings.
    private let deviceChangeRefused = Mutex<(@Sendable (JSONValue) -> Void)?>(nil)
    /// Shows uses of quotas.
    private let uses: QuotaUses
    private var entries: Entries { queries.entries }

    init(
        _ outbox: OutboxEngine,
        _ services: ClientServices,
        user: CacheScope,
        uses: QuotaUses
    ) {
        self.outbox = outbox
        self.user = user
        self.uses = uses
        applyNow = { [weak services] in services?.applyNow($0) }
        idsReplaced = { [weak services] in services?.idsReplaced() }
        queries = services.queries
        settling = MutationSettling(outbox, services.queries)
        // The client's own mutations need no registration.
        let own: [any RemoteMutation.Type] = [
            AccountUpdate.self, PurchaseCredit.self, QuotaConsumption.self,
        ]
        let all = services.configuration.mutations + own
        types = Dictionary(all.map { ($0.name, $0) }) { first, _ in first }
    }

    /// Sets the closure that receives the feed's numbers of changes of the account.
    func onAccountChange(_ body: @escaping @Sendable (FeedMark) -> Void) {
        accountChanged.withLock { $0 = body }
    }

    /// Sets the closure that receives answers to purchases, with the ids of their operations.
    func onPurchase(_ body: @escaping @Sendable (CreditedPurchase, Identifier) -> Void) {
        purchased.withLock { $0 = body }
    }

    /// Sets the closure that receives changes by the device's settings that the server has refused.
    func onRefusedDeviceChange(_ body: @escaping @Sendable (JSONValue) -> Void) {
        deviceChangeRefused.withLock { $0 = body }
    }

    // MARK: - Showing

    /// Adds a mutation, which is durable and visible when this method returns.
    func perform(_ mutation: some RemoteMutation) throws(SanguineError) -> Receipt {
        let name = type(of: mutation).name
        guard types[name] != nil else {
            throw .unregistered(name, type(of: mutation))
        }
        var row = OutboxFile.Row(
            id: outbox.environment.newId(),
            kind: .remote,
            lane: mutation.lane,
            name: name,
            arguments: try OutboxFile.Row.arguments(of: mutation, .remote)
        )
        var mutation: any RemoteMutation = mutation
        if let rewritten = ids.withLock({ $0 }).rewrite(row) {
            (row, mutation) = (rewritten, self.mutation(of: rewritten) ?? mutation)
        }
        let view = view(of: mutation)
        if let query = view.refused { throw .unchangeable(query.name, by: name) }
        return try outbox.perform(row, mutation as? any Superseding) { _ in
            { [self] row, contents, replaced in
                add(row, to: &contents)
                return { [self] in showNew(row, view, inPlaceOf: replaced) }
            }
        }
    }

    func open(_ contents: inout OutboxContents) {}

    func admit(_ row: OutboxFile.Row, to contents: inout OutboxContents) -> Shown {
        let decoded = Result { () throws(Problem) in try decode(row) }
        var fault: Problem?
        if case .failure(let problem) = decoded { fault = problem }
        add(row, fault: fault, to: &contents)
        guard let mutation = try? decoded.get(),
            contents.state.outbox.items[row.sequence]?.isRefused == false
        else {
            return {}
        }
        return { [self] in
            showNew(row, view(of: mutation))
            // The process that sent it ended before it was settled.
            if case .acknowledged = row.phase { settling.refetch([row.sequence]) }
        }
    }

    private func add(
        _ row: OutboxFile.Row,
        fault: Problem? = nil,
        to contents: inout OutboxContents
    ) {
        var item = OutboxState.Item(
            id: row.id,
            sequence: row.sequence,
            lane: row.lane,
            kind: .remote,
            phase: row.phase
        )
        (item.outcomeUnknown, item.isArriving) = (row.outcomeUnknown, true)
        // Refused in memory only; on disk it waits for an app version that can decode it.
        if let fault, !item.isRefused { item.phase = .refused(fault) }
        contents.rows[row.sequence] = row
        contents.state.outbox.add(item)
    }

    /// Shows an operation that was just added.
    private func showNew(
        _ row: OutboxFile.Row,
        _ view: MutationEffects,
        inPlaceOf replaced: [Int64] = []
    ) {
        uses.shows(row)
        show(row, view, inPlaceOf: replaced)
        // A temporary id may have been replaced in the meantime.
        rewriteWaiting(only: row.sequence)
        let present = outbox.read { $0.rows[row.sequence] }
        guard let present, !present.isSame(as: row), let mutation = self.mutation(of: present)
        else { return }
        show(present, self.view(of: mutation))
    }

    private func show(
        _ row: OutboxFile.Row,
        _ view: MutationEffects,
        inPlaceOf replaced: [Int64] = []
    ) {
        var effects = view.effects(of: row.sequence)
        for index in effects.indices {
            effects[index].mutation = row.name
            if row.outcomeUnknown { effects[index].sentAt = 0 }
            if case .acknowledged = row.phase { effects[index].acknowledgedAt = 0 }
        }
        applyNow(
            entries.setEffects(effects, of: row.sequence, inPlaceOf: replaced, for: user)
        )
    }

    func discard(_ sequences: [Int64], from contents: inout OutboxContents) -> Shown {
        let rows = sequences.compactMap { contents.rows[$0] }
        for sequence in sequences { _ = contents.state.outbox.discard(sequence) }
        guard let first = sequences.first else { return {} }
        return { [entries, user, applyNow, uses] in
            uses.hides(rows)
            applyNow(entries.setEffects([], of: first, inPlaceOf: sequences, for: user))
        }
    }

    func operation(of row: OutboxFile.Row) -> (any Mutation)? { mutation(of: row) }

    func checkRetry(_ row: OutboxFile.Row) throws(SanguineError) {
        guard types[row.name] != nil else {
            throw .unregistered(row.name)
        }
        do throws(Problem) { _ = try decode(row) } catch { throw .problem(error) }
    }

    private func mutation(of row: OutboxFile.Row) -> (any RemoteMutation)? {
        try? decode(row)
    }

    private func decode(_ row: OutboxFile.Row) throws(Problem) -> any RemoteMutation {
        guard let type = types[row.name] else { throw .unknownMutation(row.name) }
        do {
            return try StoredForm.arguments.decode(type, from: row.arguments)
        } catch {
            throw Problem(
                .invalidContent,
                """
                Declare a default or a migration for the arguments of '\(row.name)': \
                \(error.memberFault). Then retry the operation.
                """
            )
        }
    }

    /// Returns the changes of a mutation; runs app code.
    private func view(of mutation: any RemoteMutation) -> MutationEffects {
        var view = MutationEffects(cache: queries)
        mutation.effects(on: &view)
        return view
    }

    // MARK: - Ids

    /// The real id that the backend has assigned for a temporary one; `nil` if it is not known.
    func realID(of id: String) -> String? { ids.withLock { $0.real(of: id) } }

    func prepare(_ rows: [OutboxFile.Row]) -> [OutboxFile.Row] {
        let ids = ids.withLock { $0 }
        return rows.map { row in
            guard let rewritten = ids.rewrite(row) else { return row }
            showAgain(rewritten)
            return rewritten
        }
    }

    /// Replaces temporary ids by real ones in a queued operation.
    private func rewriteWaiting(only sequence: Int64) {
        let ids = ids.withLock { $0 }
        guard !ids.isEmpty else { return }
        outbox.rewrite { contents in
            guard contents.state.outbox.items[sequence]?.phase == .queued else { return [] }
            return [contents.rows[sequence].flatMap { ids.rewrite($0) }].compactMap { $0 }
        }
    }

    /// Shows the effects of an operation under real ids, unless it is gone.
    private func showAgain(_ row: OutboxFile.Row) {
        func isThere() -> Bool { outbox.read { $0.rows[row.sequence] != nil } }
        guard let mutation = mutation(of: row), isThere() else { return }
        show(row, view(of: mutation))
        // It may have been discarded in the meantime.
        if !isThere() { entries.setEffects([], of: row.sequence, for: user) }
    }

    func rewritten(_ row: OutboxFile.Row, in contents: inout OutboxContents) -> Shown {
        { [self] in showAgain(row) }
    }

    // MARK: - Sending

    var canSend: Bool { true }

    func becameActive() {
        if outbox.environment.connectivity.isOnline.value { settling.refetchAll() }
    }

    func notSent(_ sequences: [Int64]) {
        for sequence in sequences {
            entries.recordUnsent(sequence)
            if let row = outbox.read({ $0.rows[sequence] }) { uses.notSent(row) }
        }
    }

    func send(_ departure: OutboxSend) async throws(SanguineError) {
        guard let row = departure.rows.first else { throw .problem(.unknownMutation("")) }
        let mutation: any RemoteMutation
        do throws(Problem) { mutation = try decode(row) } catch { throw .problem(error) }
        let wasSent = outbox.read { $0.state.outbox.items[row.sequence]?.outcomeUnknown }
        entries.recordSend(row.sequence)
        uses.sends(row)
        outbox.changed()
        let request = MutationContext(
            id: row.id,
            possiblyApplied: wasSent ?? false,
            backend: user.attempts.backend
        )
        request.notes.uploads.follow { [weak outbox] progress in
            outbox?.progressed(row.sequence, progress)
        }
        defer { request.notes.uploads.end() }
        do throws(SanguineError) {
            try await send(mutation, request)
        } catch {
            guard request.notes.reported.withLock({ $0.hasAnswer }) else { throw error }
            guard error.isUnreadableSuccess else { throw partlyDone(error, departure) }
            outbox.environment.logger.error(
                "A mutation's response could not be read. The mutation counts as applied.",
                metadata: ["reason": "\(error)"]
            )
        }
        completed(departure, row, request)
    }

    /// Marks an error that `send` threw after one of its requests had succeeded.
    ///
    /// If the operation is refused with this error, a retry keeps its idempotency key.
    private func partlyDone(
        _ error: SanguineError,
        _ departure: OutboxSend
    ) -> SanguineError {
        guard !error.isRefusalOfApp, case .refused(var problem) = verdict(on: error, of: departure)
        else { return error }
        problem.isPartlyDone = true
        if problem.code == .mutatorFailed {
            problem.detail += " The backend has answered one request, so a retry keeps its key."
        }
        return .problem(problem)
    }

    // Runs in a separate task: the app's closure may ignore its cancellation, which must not block
    // the lane forever.
    private func send(
        _ mutation: any RemoteMutation,
        _ request: MutationContext
    ) async throws(SanguineError) {
        let outcome = OneShot<Void>()
        let work = Task {
            do {
                try await mutation.send(request)
                outcome.resolve(.success(()))
            } catch {
                outcome.resolve(.failure(SanguineError(error)))
            }
        }
        let (delay, uploads) = (outbox.environment.delay, request.notes.uploads)
        let deadline = Task {
            guard await uploads.isSilent(for: RecordLimits.mutationTimeout, on: delay) else {
                return
            }
            outcome.resolve(.failure(.transport(.timedOut)))
        }
        defer {
            work.cancel()
            deadline.cancel()
        }
        try await outcome.value()
    }

    private func completed(
        _ departure: OutboxSend,
        _ row: OutboxFile.Row,
        _ request: MutationContext
    ) {
        let (sequence, said) = (row.sequence, request.notes.reported.withLock { $0 })
        let ids = ids.withLock { ids in
            ids.learn(said.replaced)
            return ids
        }
        if let mark = said.accountMark { accountChanged.withLock { $0 }?(mark) }
        uses.applied(row, said.consumed)
        if let purchase = said.purchase { purchased.withLock { $0 }?(purchase, row.id) }
        // Before the effects move to the real ids: models must move first.
        if !said.replaced.isEmpty { idsReplaced() }
        let head = outbox.environment.clock.now().millisecondsSince1970
        let result = PushResult(id: row.id, status: .applied, head: head)
        var rest: [ErasedQuery]?
        settling.withResponse(of: sequence) {
            let recorded = outbox.recordOutcomes(departure, [result]) { contents in
                guard !ids.isEmpty else { return [] }
                let items = contents.state.outbox.items
                return contents.rows.values.filter { waiting in
                    waiting.kind == .remote
                        && (waiting.sequence == sequence
                            || items[waiting.sequence]?.phase == .queued)
                }
                .compactMap { ids.rewrite($0) }
            }
            guard let (steps, rewritten) = recorded else { return }
            for row in rewritten { showAgain(row) }
            rest = takeOver(said, of: sequence)
            outbox.deliverOutcomes(steps)
        }
        guard let rest else { return }
        if rest.isEmpty { settling.settled(sequence) } else { settling.refetch([sequence]) }
    }

    /// Stores the values and rows of a response; returns the queries that still show an effect.
    private func takeOver(
        _ said: MutationContext.Notes.Report,
        of sequence: Int64
    ) -> [ErasedQuery] {
        var unsettled: [ErasedQuery] = []
        for (query, box) in said.values
        where !entries.settle(sequence, query, with: box, for: user) {
            unsettled.append(query)
        }
        var rest = entries.acknowledge(
            sequence,
            said.conditions,
            answered: Set(said.rows.map(\.list))
        )
        if !said.rows.isEmpty {
            for row in said.rows { row.take(queries, user) }
            let open = entries.effectQueries(of: sequence)
            rest.removeAll { query in !open.contains { $0.key == query.key } }
        }
        for query in unsettled where !rest.contains(where: { $0.key == query.key }) {
            entries.invalidate(query)
        }
        return rest
    }

    // MARK: - Failures

    func refused(_ departure: OutboxSend, _ problem: Problem) {
        let results = departure.rows.map {
            PushResult(id: $0.id, status: .refused, problem: problem)
        }
        guard let (steps, _) = outbox.recordOutcomes(departure, results) else { return }
        for row in departure.rows {
            // A refusal often reflects a change at the backend that is not visible yet.
            for query in hide(row, problem) { entries.invalidate(query) }
        }
        outbox.deliverOutcomes(steps)
        for row in departure.rows { dropDeviceChange(row) }
    }

    /// Removes a refused change by the device's settings, which the user has not made and cannot
    /// correct.
    private func dropDeviceChange(_ row: OutboxFile.Row) {
        guard row.name == AccountUpdate.name,
            let update = try? StoredForm.arguments.decode(AccountUpdate.self, from: row.arguments),
            update.followsDevice == true
        else { return }
        deviceChangeRefused.withLock { $0 }?(update.patch)
        // After a failure of the disk, it stays in the tray.
        try? outbox.discard(row.id)
    }

    func refuse(_ sequences: [Int64], _ problem: Problem) {
        let rows = outbox.read { contents in sequences.compactMap { contents.rows[$0] } }
        let steps = outbox.refuse(sequences, problem)
        for row in rows { _ = hide(row, problem) }
        outbox.deliverOutcomes(steps)
    }

    /// Hides an operation that was refused; returns the queries that have shown it.
    private func hide(_ row: OutboxFile.Row, _ problem: Problem) -> [ErasedQuery] {
        uses.refused(row, problem)
        let touched = entries.effectQueries(of: row.sequence)
        entries.setEffects([], of: row.sequence, for: user)
        return touched
    }

    func verdict(on error: SanguineError, of departure: OutboxSend) -> OutboxVerdict {
        switch error {
        case .transport(.offline), .store, .notConfigured: return .failed(.retry, wasSent: false)
        case .problem(let problem) where problem.isPartlyDone: return .refused(problem)
        case .problem(let problem):
            // These statuses say that the request was not processed (RFC 9110, RFC 6585, RFC 8470).
            let isTurnedAway = [401, 408, 425, 429, 503, 511].contains(problem.status)
            let errorClass = problem.known?.errorClass ?? Self.errorClass(of: problem)
            if let verdict = verdict(errorClass, error, wasSent: !isTurnedAway) { return verdict }
            guard problem.known?.isForeign == true else { return .refused(problem) }
            return .notAnswered(Self.pause(error), orElse: problem)
        case .transport(.intercepted):
            return .notAnswered(.retry, orElse: .intercepted(error))
        case .queryFailed(let failure):
            return verdict(failure.errorClass, error, wasSent: true)
                ?? .refused(Self.unsendable(departure, failure.description))
        case .transport(.invalid), .transport(.bodyTooLarge), .conflictingQuery, .rangeTooLong,
            .decoding:
            return .refused(Self.unsendable(departure, "\(error)"))
        default: return .failed(.retry, wasSent: true)
        }
    }

    /// Returns the verdict for an error of the given class, or `nil` if the operation is refused.
    private func verdict(
        _ errorClass: ErrorClass,
        _ error: SanguineError,
        wasSent: Bool
    ) -> OutboxVerdict? {
        switch errorClass {
        case .needsSignIn:
            // A token renewal may succeed at the next try; without one, the app resumes sending.
            .failed(user.attempts.backend.authorizer.renews ? .retry : .needsSignIn, wasSent: false)
        case .retryable, .waits, .cancelled:
            .failed(Self.pause(error), wasSent: wasSent)
        case .refused, .gone, .defect: nil
        }
    }

    private static func pause(_ error: SanguineError) -> OutboxState.Failure {
        error.retryAfter.map { .retryAfter($0) } ?? .retry
    }

    /// Classifies a problem of a write that the app has not classified.
    ///
    /// Every server fault is retried, including those that would not be retried for a read, so that
    /// no user action is lost. A conflict with `Retry-After` is retried as well.
    private static func errorClass(of problem: Problem) -> ErrorClass {
        switch problem.status {
        case 401: .needsSignIn
        case 408, 425, 429, 500...: .retryable
        case 409 where problem.retryAfter != nil: .retryable
        default: problem.code == .operationInProgress ? .retryable : .refused
        }
    }

    /// Returns the problem of an operation that no retry can cure.
    private static func unsendable(_ departure: OutboxSend, _ reason: String) -> Problem {
        let name = departure.rows.first?.name ?? ""
        var problem = Problem(
            .mutatorFailed,
            "Fix the 'send' of '\(name)', then retry or discard the operation. It threw: \(reason)"
        )
        problem.title = "The mutation failed."
        return problem
    }
}

extension SanguineError {
    /// Whether the backend responded with success but the body could not be read.
    fileprivate var isUnreadableSuccess: Bool {
        switch self {
        case .decoding, .transport(.bodyTooLarge): true
        default: false
        }
    }
}
