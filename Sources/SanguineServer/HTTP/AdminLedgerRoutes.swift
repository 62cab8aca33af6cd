import HTTPTypes
import Hummingbird
import SanguineAuthority
import SanguineModel
import Synchronization

/// The ledger on the port for administration: verification, export, and spending limits.
struct AdminLedgerRoutes: Sendable {
    let authority: Authority
    let gate: Gate
    private let verification = VerificationPermit()

    init(authority: Authority, gate: Gate) {
        self.authority = authority
        self.gate = gate
    }

    func add(to admin: RouterGroup<ServerContext>) {
        admin.get("ledger/verify", use: verify)
        admin.get("ledger/export", use: export)
        admin.put("accounts/:id/spending", use: setLimit)
    }

    /// Verifies the ledger while the server serves, and reports the progress as server-sent events.
    @Sendable
    private func verify(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try context.administrator(.read)
        guard verification.acquire() else {
            throw Problem(
                .overloaded,
                "The ledger is being verified. Send the request again after 'Retry-After'.",
                retryAfter: 10
            )
        }
        let run = VerificationRun(authority) { [verification] in verification.release() }
        var response = WireResponse(
            status: 200,
            fields: [(.contentType, WireResponse.eventStream), (.cacheControl, "no-store")]
        )
        response.stream = WireStream(next: { await run.next() }, close: { run.stop() })
        guard request.method != .head else {
            run.stop()
            response.stream = nil
            return Response(response)
        }
        return Response(response, on: context.channel)
    }

    @Sendable
    private func export(_ request: Request, _ context: ServerContext) async throws -> Response {
        let notes = AdminNotes(gate, AdminPermission(authority: authority))
        let note = try await notes.note("ledger.export", .owner, request, context)
        // Nothing leaves the server that was not recorded.
        try await authority.record(note)
        let format = LedgerFormat(accept: request.headers[.accept])
        return Response(authority.exportLedger(as: format).response(), on: context.channel)
    }

    @Sendable
    private func setLimit(_ request: Request, _ context: ServerContext) async throws -> Response {
        let permission = AdminPermission(authority: authority)
        let by = try await permission.administrator(.support, for: "account.limit", context)
        guard let id = context.parameters.get("id").flatMap({ Identifier($0) }) else {
            throw Problem(.notFound, "Use a UUID as the account id in the path.")
        }
        let submission = try await gate.admission.submission(
            gate.wire(request, context),
            as: SpendingLimitRequest.self
        ) { "\($0.perDay.map(String.init) ?? "") \($0.reason)" }
        let content = try? submission.content.get()
        let reason = content?.reason ?? ""
        let isText = reason.isPlainText(of: WireLimits.reasonCharacters)
        let detail = content.map { $0.perDay.map(String.init) ?? "default" }
        let note = by.note("account.limit", id, isText ? reason : "", detail)
        return Response(.answer(try await authority.setSpendingLimit(id, submission, by: note)))
    }
}

/// Allows one verification of the ledger at a time, because each reads everything.
///
/// Mutable state: whether one runs, guarded by its mutex.
final class VerificationPermit: Sendable {
    private let isTaken = Mutex(false)

    /// Returns whether a verification may start.
    func acquire() -> Bool {
        isTaken.withLock { isTaken in
            defer { isTaken = true }
            return !isTaken
        }
    }

    /// Ends the verification.
    func release() { isTaken.withLock { $0 = false } }
}

/// A verification of the ledger, as server-sent events: `progress`, then `report` or `problem`.
///
/// A reader that is slow receives only the newest progress.
final class VerificationRun: Sendable {
    private enum Event: Sendable {
        case progress(LedgerProgress)
        case report(LedgerReport)
        case problem(Problem)
    }

    private let events: AsyncStream<Event>
    private let task: Task<Void, Never>

    init(_ authority: Authority, onEnd: @escaping @Sendable () -> Void) {
        let (events, sink) = AsyncStream.makeStream(
            of: Event.self,
            bufferingPolicy: .bufferingNewest(4)
        )
        self.events = events
        task = Task {
            do throws(Problem) {
                let report = try await authority.verifyLedger { sink.yield(.progress($0)) }
                sink.yield(.report(report))
            } catch {
                sink.yield(.problem(error))
            }
            onEnd()
            sink.finish()
        }
    }

    /// Returns the next event; `nil` after the last one.
    func next() async -> [UInt8]? {
        for await event in events { return Self.bytes(of: event) }
        return nil
    }

    /// Stops the verification.
    func stop() { task.cancel() }

    private static func bytes(of event: Event) -> [UInt8] {
        let (name, data) =
            switch event {
            case .progress(let progress): ("progress", ResponseEncoder.encode(progress))
            case .report(let report): ("report", ResponseEncoder.encode(report))
            case .problem(let problem): ("problem", ResponseEncoder.encode(problem))
            }
        return Array("event: \(name)\ndata: ".utf8) + data + Array("\n\n".utf8)
    }
}
