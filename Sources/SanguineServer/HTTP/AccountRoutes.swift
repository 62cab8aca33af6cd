import Foundation
import Hummingbird
import SanguineAuthority
import SanguineModel

/// `/v1/accounts`, `/v1/sessions` and `/v1/account`.
struct AccountRoutes: Sendable {
    let authority: Authority
    let gate: Gate

    func add(to routes: RouterGroup<ServerContext>) {
        routes.post("accounts/guest", use: guest)
        routes.post("sessions/refresh", use: refresh)
        routes.delete("sessions/current", use: signOut)
        routes.get("account", use: account)
        routes.patch("account", use: patch)
    }

    @Sendable
    private func guest(_ request: Request, _ context: ServerContext) async throws -> Response {
        let body = try await gate.anonymous(request, context, as: GuestRequest.self)
        let outcome = try await authority.guest(body)
        return Answers.changed(
            outcome.signedIn,
            status: outcome.isNew ? .created : .ok,
            head: outcome.head
        )
    }

    @Sendable
    private func refresh(_ request: Request, _ context: ServerContext) async throws -> Response {
        let body = try await gate.anonymous(request, context, as: RefreshRequest.self)
        return Answers.changed(Refreshed(session: try await authority.refresh(body)), head: nil)
    }

    @Sendable
    private func signOut(_ request: Request, _ context: ServerContext) async throws -> Response {
        try await authority.signOut(try await gate.read(request, context))
        return Response(status: .noContent)
    }

    @Sendable
    private func account(_ request: Request, _ context: ServerContext) async throws -> Response {
        let identity = try await gate.read(request, context)
        return Answers.read(try await authority.account(identity.account).0, to: request)
    }

    @Sendable
    private func patch(_ request: Request, _ context: ServerContext) async throws -> Response {
        let (identity, body) = try await gate.body(request, context, as: [String: JSONValue].self)
        let patch = JSONValue.object(try body.get())
        let (account, head) = try await authority.patchAccount(identity.account, patch)
        return Answers.changed(account, head: head)
    }
}
