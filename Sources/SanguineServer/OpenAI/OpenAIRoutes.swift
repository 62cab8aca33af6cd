import SanguineAuthority
import SanguineModel

/// The endpoints for programs that use OpenAI's API: chat completions, embeddings, models.
///
/// A program signs in like any client, sends the access token as its API key, and is charged by the
/// rules of a function of the settings. Refusals have OpenAI's format with this server's codes.
struct OpenAIRoutes: Sendable {
    /// The function whose rules apply; `nil` if the endpoints are disabled.
    let setting: FunctionSetting?
    /// The available models of the upstreams, each with the upstreams that serve it.
    let models: [(name: String, upstreams: [String])]
    let calls: CallRunner
    let admission: Admission
    let clock: any WallClock
    /// Returns how a function queries models: its own, or the given upstreams with their own model.
    let make: @Sendable (FunctionSetting, [String]?) -> ModelCall

    /// The endpoints.
    var endpoints: [Endpoint] {
        [
            Endpoint("POST", "chat/completions", withOpenAIErrors(chat)).brief,
            Endpoint("POST", "embeddings", withOpenAIErrors(embeddings)).brief,
            Endpoint("GET", "models", withOpenAIErrors(listModels)).brief,
        ]
    }

    /// Wraps a handler so that its refusals have OpenAI's format.
    private func withOpenAIErrors(_ handler: @escaping Endpoint.Handler) -> Endpoint.Handler {
        { request throws(Problem) in
            do throws(Problem) {
                return try await handler(request)
            } catch {
                return .openAIRefusal(error)
            }
        }
    }

    @Sendable
    private func listModels(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        _ = try await admission.read(request)
        let names = setting.map { [$0.name] + models.map(\.name) } ?? []
        let items = names.map { name -> JSONValue in
            ["id": .string(name), "object": "model", "created": 0, "owned_by": "sanguine"]
        }
        let list: JSONValue = ["object": "list", "data": .array(items)]
        return .read(list, isPersonal: false, to: request)
    }

    @Sendable
    private func chat(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let admitted = try await admitted(request)
        let isStreamed = try admitted.submission.content.get().value["stream"] == true
        let reply = try await call(admitted, request, as: isStreamed ? .parts(after: nil) : .plain)
        {
            ForwardedFunction.chat($0, $1, $2)
        }
        return await .openAI(reply, to: admitted)
    }

    @Sendable
    private func embeddings(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let admitted = try await admitted(request)
        let reply = try await call(admitted, request, as: .plain) {
            ForwardedFunction.embeddings($0, $1, $2)
        }
        return await .openAI(reply, to: admitted)
    }

    private typealias Admitted = Admission.Admitted<ForwardedBody>

    /// Admits a request; one without an idempotency key gets a unique key.
    private func admitted(_ request: any WireRequest) async throws(Problem) -> Admitted {
        let labels = try request.chargeLabels()
        var admitted = try await admission.submitPassedOn(
            request,
            keyIfNone: "openai-\(Identifier(at: clock.now()))"
        )
        admitted.submission.labels = labels
        return admitted
    }

    private func call(
        _ admitted: Admitted,
        _ request: any WireRequest,
        as reader: AnswerForm,
        _ function: (ForwardedBody, FunctionSetting, ModelCall) -> ForwardedFunction
    ) async throws(Problem) -> CallReply {
        guard let setting else {
            throw Problem(.notFound, "Ask the operator to name a function in 'openai.function'.")
        }
        let body = try admitted.submission.content.get()
        let name = body.value["model"]?.string ?? setting.name
        let upstreams = models.first { $0.name == name }?.upstreams
        guard upstreams != nil || name == setting.name else { throw .noModel }
        return try await calls.call(
            function(body, setting, make(setting, name == setting.name ? nil : upstreams)),
            admitted.identity,
            request.address,
            admitted.submission.map { FunctionRequest(input: $0.value) },
            reader
        )
    }
}

extension Problem {
    fileprivate static var noModel: Problem {
        Problem("model_not_found", "Set 'model' to a name that GET /v1/models lists.")
    }
}

extension WireResponse {
    /// A refusal in the format of OpenAI's clients (OpenAI API reference, error codes).
    fileprivate static func openAIRefusal(_ problem: Problem) -> WireResponse {
        var answer = WireResponse.problem(problem)
        answer.status = problem.openAIStatus
        answer.body = ResponseEncoder.encode(problem.openAI)
        if let index = answer.fields.firstIndex(where: { $0.field == .contentType }) {
            answer.fields[index].value = json
        }
        return answer
    }

    /// The response to a call in the format of OpenAI's clients.
    fileprivate static func openAI(
        _ reply: CallReply,
        to admitted: Admission.Admitted<ForwardedBody>
    ) async -> WireResponse {
        let key = (field: WireField.sanguineCall, value: admitted.submission.key)
        switch reply {
        case .answer(let answer, _):
            let account = admitted.identity.account
            var wire = await WireBody.perform(answer.stored.body.count, for: account) {
                openAI(answer)
            }
            wire.fields.append(key)
            return wire
        case .events(let events, _):
            var wire = WireResponse(
                status: 200,
                fields: [
                    (.contentType, eventStream), (.cacheControl, "no-store"),
                    (.accelBuffering, "no"), key,
                ]
            )
            wire.stream = WireStream(openAI: events)
            return wire
        }
    }

    private static func openAI(_ answer: Answer) -> WireResponse {
        // The output is already encoded in this format, so only the enclosing object is removed.
        guard answer.stored.status == 200,
            let output = JSONParser.range(of: "output", in: answer.stored.body)
        else {
            let json = try? JSONParser.parse(answer.stored.body, limits: .stored).value
            let problem = Problem(stored: json, status: answer.stored.status)
            var wire = openAIRefusal(problem)
            if answer.replayed { wire.fields.append((.idempotencyReplayed, "true")) }
            return wire
        }
        var wire = WireResponse.answer(answer)
        wire.body = Array(answer.stored.body[output])
        return wire
    }
}

extension WireStream {
    /// A call in OpenAI's streaming format: the upstream's chunks, then `[DONE]`.
    fileprivate init(openAI events: CallEventStream) {
        self.init(
            next: { await events.next().map(Self.openAIBytes) },
            close: { events.close() }
        )
    }

    private static func openAIBytes(of event: CallEvent) -> [UInt8] {
        switch event {
        case .parts(_, let texts): return texts.flatMap(Self.event)
        case .end(_, .success(let answer)) where answer.status == 200:
            return Array("data: [DONE]\n\n".utf8)
        case .end(_, .success(let answer)):
            let json = try? JSONParser.parse(answer.body, limits: .stored).value
            return error(Problem(stored: json, status: answer.status))
        case .end(_, .failure(let problem)): return error(problem)
        case .idle: return Array(": ping\n\n".utf8)
        }
    }

    /// A chunk as an event, with one field per line of the chunk.
    private static func event(_ chunk: String) -> [UInt8] {
        let lines = chunk.utf8.split(
            separator: UInt8(ascii: "\n"),
            omittingEmptySubsequences: false
        )
        return lines.flatMap { Array("data: ".utf8) + $0 + [UInt8(ascii: "\n")] }
            + [UInt8(ascii: "\n")]
    }

    private static func error(_ problem: Problem) -> [UInt8] {
        Array("data: ".utf8) + ResponseEncoder.encode(problem.openAI) + Array("\n\n".utf8)
    }
}

extension Problem {
    /// Creates a problem from its stored form.
    fileprivate init(stored json: JSONValue?, status: Int) {
        let code = json?["code"]?.string ?? ProblemCode(status: status).rawValue
        self.init(ProblemCode(rawValue: code), json?["detail"]?.string ?? "")
        charged = json?["charged"]?.integer
        retryAfter = json?["retryAfter"]?.integer.map { Int($0) }
        guard let reason = json?["upstream"] else { return }
        upstream = UpstreamReason(
            code: reason["code"]?.string,
            type: reason["type"]?.string,
            param: reason["param"]?.string,
            message: reason["message"]?.string
        )
    }

    fileprivate var openAIStatus: Int { code == "model_not_found" ? 404 : status }

    /// The body of a refusal in OpenAI's format, with the upstream's message if there is one.
    fileprivate var openAI: JSONValue {
        let type =
            switch openAIStatus {
            case 401: "authentication_error"
            case 402: "insufficient_quota"
            case 403: "permission_error"
            case 429: "rate_limit_error"
            case 500...: "server_error"
            default: "invalid_request_error"
            }
        let error: JSONValue = [
            "message": .string(upstream?.message ?? (detail.isEmpty ? title : detail)),
            "type": .string(upstream?.type ?? type),
            "param": upstream?.param.map { .string($0) } ?? .null,
            "code": .string(upstream?.code ?? code.rawValue),
        ]
        return ["error": error]
    }
}
