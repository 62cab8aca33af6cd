import Hummingbird
import SanguineAuthority
import SanguineModel

/// `/v1/balance`, `/v1/quotas`, `/v1/spend`, `/v1/holds` and `/v1/ledger`.
struct BalanceRoutes: Sendable {
    let authority: Authority
    let gate: Gate

    func add(to routes: RouterGroup<ServerContext>) {
        routes.get("balance", use: balance)
        routes.get("quotas", use: quotas)
        routes.post("quotas/:name/consume", use: consume)
        routes.post("spend", use: spend)
        routes.post("holds", use: hold)
        routes.post("holds/:id/capture", use: capture)
        routes.post("holds/:id/release", use: release)
        routes.get("ledger", use: ledger)
    }

    @Sendable
    private func balance(_ request: Request, _ context: ServerContext) async throws -> Response {
        let operations = try Self.operationsAsked(request)
        let identity = try await gate.read(request, context)
        guard let operations else {
            return Answers.read(try await authority.balanceJSON(identity.account).body, to: request)
        }
        let balance = try await authority.balance(identity.account, operations: operations)
        return Answers.read(balance, to: request)
    }

    /// The keys of `?operations=a,b`, or `nil` if it is not there.
    private static func operationsAsked(_ request: Request) throws(Problem) -> [String]? {
        guard request.uri.query?.isEmpty == false,
            let keys = request.uri.queryParameters["operations"]
        else { return nil }
        let operations = keys.split(separator: ",").map(String.init)
        guard operations.count <= WireLimits.operationsAsked else {
            throw Problem(
                .malformedRequest,
                "Ask about at most \(WireLimits.operationsAsked) operations."
            )
        }
        return operations
    }

    @Sendable
    private func quotas(_ request: Request, _ context: ServerContext) async throws -> Response {
        let identity = try await gate.read(request, context)
        return Answers.read(try await authority.quotas(identity.account).0, to: request)
    }

    @Sendable
    private func consume(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try context.parameters.require("name")
        let admitted = try await gate.submit(request, context, as: ConsumeRequest.self) {
            String($0.amount ?? 1)
        }
        return Answers.answer(
            try await authority.consume(name, admitted.identity.account, admitted.submission)
        )
    }

    @Sendable
    private func spend(_ request: Request, _ context: ServerContext) async throws -> Response {
        let admitted = try await gate.submit(request, context, as: SpendRequest.self) {
            "\($0.amount) \($0.reason)"
        }
        return Answers.answer(
            try await authority.spend(admitted.identity.account, admitted.submission)
        )
    }

    @Sendable
    private func hold(_ request: Request, _ context: ServerContext) async throws -> Response {
        let admitted = try await gate.submit(request, context, as: HoldRequest.self) {
            "\($0.amount) \($0.expiresIn.map(String.init) ?? "")"
        }
        return Answers.answer(
            try await authority.hold(admitted.identity.account, admitted.submission)
        )
    }

    @Sendable
    private func capture(_ request: Request, _ context: ServerContext) async throws -> Response {
        let admitted = try await gate.submit(request, context, as: CaptureRequest.self) {
            String($0.amount)
        }
        return Answers.answer(
            try await authority.capture(
                try holdID(context),
                admitted.identity.account,
                admitted.submission
            )
        )
    }

    @Sendable
    private func release(_ request: Request, _ context: ServerContext) async throws -> Response {
        let admitted = try await gate.submit(request, context, as: EmptyBody.self) { _ in "" }
        let submission = Submission<Void>(
            key: admitted.submission.key,
            fingerprint: admitted.submission.fingerprint,
            content: admitted.submission.content.map { _ in }
        )
        return Answers.answer(
            try await authority.release(
                try holdID(context),
                admitted.identity.account,
                submission
            )
        )
    }

    @Sendable
    private func ledger(_ request: Request, _ context: ServerContext) async throws -> Response {
        let query = try ListQuery(request)
        let identity = try await gate.read(request, context)
        let page = try await authority.ledger(
            of: identity.account,
            limit: query.limit,
            cursor: query.cursor
        )
        return try query.response(to: request, page)
    }

    private func holdID(_ context: ServerContext) throws(Problem) -> Identifier {
        guard let id = context.parameters.get("id").flatMap({ Identifier($0) }) else {
            throw Problem(.notFound, "Use the 'id' of a hold that this account placed.")
        }
        return id
    }
}

/// `{}`.
struct EmptyBody: Codable, Sendable {}
