import HTTPTypes
import Hummingbird
import SanguineAuthority
import SanguineModel

/// `/v1/functions`.
struct FunctionRoutes: Sendable {
    let functions: FunctionRunner
    let gate: Gate

    func add(to routes: RouterGroup<ServerContext>) {
        routes.get("functions", use: list)
        routes.post("functions/:name/quote", use: quote)
        routes.post("functions/:name", use: call)
    }

    @Sendable
    private func list(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try await gate.read(request, context)
        return Answers.read(
            Items(items: functions.descriptions),
            isPersonal: false,
            to: request
        )
    }

    @Sendable
    private func quote(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try context.parameters.require("name")
        let (_, body) = try await gate.body(
            request,
            context,
            as: FunctionRequest<JSONValue>.self
        )
        return Answers.changed(try functions.quote(name, body), head: nil)
    }

    @Sendable
    private func call(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try context.parameters.require("name")
        let admitted = try await gate.submit(
            request,
            context,
            as: FunctionRequest<JSONValue>.self
        ) {
            String(decoding: AnswerEncoder.encode($0), as: UTF8.self)
        }
        let answer = try await functions.call(
            name,
            admitted.identity.account,
            admitted.submission
        )
        var response = Answers.answer(answer)
        if answer.stored.status == 200 {
            // RFC 9211: neither of the default functions is cached.
            response.headers[.cacheStatus] = "sanguine; fwd=bypass"
        }
        return response
    }
}
