import HTTPTypes
import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/metrics`, and `/admin` behind its token, on a separate port that listens on loopback.
struct AdminRoutes: Sendable {
    let authority: Authority
    let gate: Gate
    let admin: AdminGate
    let metrics: OpenMetricsRegistry

    func add(to routes: Router<ServerContext>) {
        routes.get("metrics", use: scrape)
        routes.post("admin/session", use: signIn)
        let admin = routes.group("admin/v1").add(middleware: self.admin)
        admin.get("accounts", use: find)
        admin.post("accounts/:id/grants", use: grant)
        admin.post("accounts/:id/quotas/:name", use: giveBack)
        admin.put("accounts/:id/plan", use: setPlan)
        AdminLedgerRoutes(authority: authority, gate: gate).add(to: admin)
    }

    @Sendable
    private func scrape(_ request: Request, _ context: ServerContext) async throws -> Response {
        Response(
            status: .ok,
            headers: [.contentType: OpenMetricsRegistry.contentType],
            body: .init(byteBuffer: ByteBuffer(string: metrics.render()))
        )
    }

    @Sendable
    private func signIn(_ request: Request, _ context: ServerContext) async throws -> Response {
        struct Body: Codable, Sendable { var token: String }
        let body = try await decoded(Body.self, request, context)
        let cookie = try admin.signIn(with: try body.get().token, context)
        return Response(
            status: .noContent,
            headers: [.setCookie: cookie, .cacheControl: "no-store"]
        )
    }

    @Sendable
    private func find(_ request: Request, _ context: ServerContext) async throws -> Response {
        let query = request.uri.queryParameters
        let account: Account? =
            if let device = query["deviceId"] {
                try await authority.account(deviceID: String(device))
            } else if let email = query["email"] {
                try await authority.account(email: String(email))
            } else {
                throw Problem(.malformedRequest, "Add '?deviceId=' or '?email=' to the path.")
            }
        guard let account else {
            throw Problem(.notFound, "Check the device id or e-mail address: no account has it.")
        }
        return Response(.read(account, to: gate.wire(request, context)))
    }

    @Sendable
    private func grant(_ request: Request, _ context: ServerContext) async throws -> Response {
        let submission = try await gate.admission.submission(
            gate.wire(request, context),
            as: GrantRequest.self,
            meaning: \.meaning
        )
        return Response(.answer(try await authority.grant(try accountID(context), submission)))
    }

    @Sendable
    private func giveBack(_ request: Request, _ context: ServerContext) async throws -> Response {
        let submission = try await gate.admission.submission(
            gate.wire(request, context),
            as: SpendRequest.self,
            meaning: \.meaning
        )
        let name = context.parameters.get("name") ?? ""
        return Response(
            .answer(try await authority.giveBack(name, try accountID(context), submission))
        )
    }

    @Sendable
    private func setPlan(_ request: Request, _ context: ServerContext) async throws -> Response {
        struct Body: Codable, Sendable { var plan: Account.Plan }
        let body = try await decoded(Body.self, request, context)
        let id = try accountID(context)
        _ = try await authority.account(id)  // "Not found" takes precedence over invalid content.
        let (account, head) = try await authority.setPlan(try body.get().plan, of: id)
        return Response(.changed(account, head: head))
    }

    private func decoded<Body: Decodable & Sendable>(
        _ type: Body.Type,
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) -> Result<Body, Problem> {
        let bytes = try await gate.collect(request, context)
        return try await WireBody.perform(bytes.count, for: nil) { () throws(Problem) in
            try WireBody.decode(Body.self, from: bytes)
        }
    }

    private func accountID(_ context: ServerContext) throws(Problem) -> Identifier {
        guard let id = context.parameters.get("id").flatMap({ Identifier($0) }) else {
            throw Problem(.notFound, "Use a UUID as the account id in the path.")
        }
        return id
    }
}
