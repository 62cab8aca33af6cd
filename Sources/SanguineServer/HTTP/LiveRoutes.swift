import HTTPTypes
import Hummingbird
import SanguineAuthority
import SanguineModel

/// `/v1/live`: changes of the account's feed as they happen, as server-sent events.
struct LiveRoutes: Sendable {
    let hub: LiveHub
    let tickets: LiveTickets
    let gate: Gate

    func add(to routes: RouterGroup<ServerContext>) {
        routes.get("live", use: live)
        routes.post("live/tickets", use: issueTicket)
    }

    @Sendable
    private func live(_ request: Request, _ context: ServerContext) async throws -> Response {
        let wire = gate.wire(request, context)
        let position = FeedPosition(number: try Endpoints.livePosition(wire))
        let pass =
            if let ticket = wire.query["ticket"] {
                try gate.admission.live(wire, try tickets.redeem(ticket))
            } else {
                try await gate.admission.live(wire)
            }
        let headers: HTTPFields = [
            .contentType: "text/event-stream",
            .cacheControl: "no-store",
            .accelBuffering: "no",
        ]
        guard request.method != .head else { return Response(status: .ok, headers: headers) }
        let stream = try hub.admit(pass, at: position, on: context.channel)
        return Response(
            status: .ok,
            headers: headers,
            body: ResponseBody { writer in try await stream.write(to: &writer) }
        )
    }

    @Sendable
    private func issueTicket(
        _ request: Request,
        _ context: ServerContext
    ) async throws -> Response {
        let wire = gate.wire(request, context)
        let (_, body) = try await gate.admission.body(wire, as: EmptyBody.self)
        let pass = try await gate.admission.pass(wire)
        _ = try body.get()
        return Response(.changed(try tickets.issue(for: pass), head: nil))
    }
}
