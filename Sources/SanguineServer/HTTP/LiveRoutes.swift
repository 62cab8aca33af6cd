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
        let position = try Self.position(request)
        let pass =
            if let ticket = request.uri.queryParameters["ticket"] {
                try gate.live(request, context, try tickets.redeem(String(ticket)))
            } else {
                try await gate.live(request, context)
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
        let (_, body) = try await gate.body(request, context, as: EmptyBody.self)
        let pass = try await gate.pass(request)
        _ = try body.get()
        return Answers.changed(try tickets.issue(for: pass), head: nil)
    }

    /// Where the reader is: a reconnecting one says so in `Last-Event-ID`, whatever its address
    /// says; one that says nothing gets everything.
    private static func position(_ request: Request) throws(Problem) -> FeedPosition {
        let resumed = request.headers[.lastEventID].flatMap { $0.isEmpty ? nil : $0 }
        let asked = request.uri.queryParameters["since"].map(String.init)
        guard let text = resumed ?? asked else { return FeedPosition(number: 0) }
        guard let number = Int64(text), number >= 0 else {
            throw Problem(
                .malformedRequest,
                "Set 'since' and 'Last-Event-ID' to a number of the feed, or leave them out."
            )
        }
        return FeedPosition(number: number)
    }
}
