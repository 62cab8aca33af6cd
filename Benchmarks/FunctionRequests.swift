import Foundation

/// The requests of the functions' benchmarks, as text.
enum FunctionRequests {
    /// The question of every call.
    static let question = "What is a good first step with something new?"

    /// Returns a call of a function.
    ///
    /// - Parameters:
    ///   - function: The function's name.
    ///   - token: The caller's access token.
    ///   - key: The call's key.
    ///   - question: The question.
    ///   - isStreamed: Whether the answer is streamed, by default no.
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

    /// Returns a request for a chat completion, as an OpenAI client sends it.
    ///
    /// - Parameters:
    ///   - token: The caller's access token.
    ///   - isStreamed: Whether the answer is streamed, by default no.
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

    /// Returns a read of a path.
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
