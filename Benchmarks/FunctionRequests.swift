import Foundation

/// The requests of the functions' benchmarks, as bytes.
enum FunctionRequests {
    /// What every call asks.
    static let question = "What is a good first step with something new?"

    /// A call of a function.
    ///
    /// - Parameters:
    ///   - function: Its name.
    ///   - token: Who calls.
    ///   - key: The call's own key.
    ///   - question: What is asked.
    ///   - isStreamed: Whether the answer comes in parts. Default: no.
    /// - Returns: The request.
    static func call(
        _ function: String,
        _ token: String,
        key: String,
        question: String = question,
        isStreamed: Bool = false
    ) -> String {
        post(
            "/v1/functions/\(function)",
            #"{"input":{"question":"\#(question)"}}"#,
            [
                "Authorization: Bearer \(token)", "Idempotency-Key: \(key)",
                "Accept: \(isStreamed ? "text/event-stream" : "application/json")",
            ]
        )
    }

    /// A chat completion, as a program of OpenAI's asks for it.
    ///
    /// - Parameters:
    ///   - token: Who calls.
    ///   - isStreamed: Whether the answer comes in parts. Default: no.
    /// - Returns: The request.
    static func chat(_ token: String, isStreamed: Bool = false) -> String {
        let stream = isStreamed ? #","stream":true"# : ""
        return post(
            "/v1/chat/completions",
            """
            {"max_tokens":512,"messages":[{"content":"\(question)","role":"user"}],\
            "model":"stand-in"\(stream)}
            """,
            ["Authorization: Bearer \(token)", "Accept: */*"]
        )
    }

    /// A read of a path.
    static func get(_ path: String) -> String {
        """
        GET \(path) HTTP/1.1\r
        Host: localhost\r
        \r\n
        """
    }

    private static func post(_ path: String, _ body: String, _ fields: [String]) -> String {
        """
        POST \(path) HTTP/1.1\r
        Host: localhost\r
        \(fields.joined(separator: "\r\n"))\r
        Content-Type: application/json\r
        Content-Length: \(body.utf8.count)\r
        \r
        \(body)
        """
    }
}
