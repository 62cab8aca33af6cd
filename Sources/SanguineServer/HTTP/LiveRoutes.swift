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
        let mark = try Endpoints.livePosition(wire)
        let position = FeedPosition(
            number: mark.number,
            epoch: mark.epoch,
            config: try Endpoints.liveConfig(wire)
        )
        let lists = try Endpoints.liveLists(wire)
        let pass =
            if let ticket = wire.query["ticket"] {
                try await gate.admission.live(wire, try redeem(ticket, wire))
            } else {
                try await gate.admission.live(wire)
            }
        var headers: HTTPFields = [
            .contentType: "text/event-stream",
            .cacheControl: "no-store",
            .accelBuffering: "no",
        ]
        guard request.method != .head else { return Response(status: .ok, headers: headers) }
        // The connection is closed after the response (RFC 9112, section 9.6).
        headers[.connection] = "close"
        let connection = try hub.admit(
            pass,
            at: position,
            following: lists,
            writing: DetachedResponse(channel: context.channel),
            from: context.address
        )
        let body = ResponseBody { [hub] _ in
            try await hub.start(connection)
            throw DetachedResponse.Detached()
        }
        return Response(status: .ok, headers: headers, body: body)
    }

    private func redeem(
        _ ticket: String,
        _ request: HTTPWireRequest
    ) throws(Problem) -> AccessPass {
        do throws(Problem) {
            return try tickets.redeem(ticket)
        } catch {
            try request.admitAnonymous()
            throw error
        }
    }

    @Sendable
    private func issueTicket(
        _ request: Request,
        _ context: ServerContext
    ) async throws -> Response {
        let wire = gate.wire(request, context)
        let (pass, body) = try await gate.admission.live(withBody: wire)
        _ = try body.get()
        let ticket = try tickets.issue(for: pass, to: context.address)
        return Response(.changed(ticket, head: nil))
    }
}
