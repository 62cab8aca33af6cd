import SanguineAuthority
import SanguineModel

/// The usage of a call, as reported by the upstream.
///
/// A report is in `usage` of the answer or chunk, in its `x_groq.usage`, or in `usage` of a choice.
/// If there are several, the larger counts apply. A count is an integer up to a billion; any other
/// value is treated as missing. A report must contain input and output:
///
/// | count | member | written by |
/// |---|---|---|
/// | input | `prompt_tokens` | OpenAI chat completions |
/// | | `input_tokens` | OpenAI responses |
/// | | `input_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens` | Anthropic |
/// | output | `completion_tokens` | OpenAI chat completions |
/// | | `output_tokens` | OpenAI responses, Anthropic |
/// | | `total_tokens` less the input, if that is more | Gemini, xAI |
/// | | with `reasoning_tokens` added, if these are more | the same without a total |
/// | cached | `cached_tokens` in `prompt_tokens_details` or `input_tokens_details` | OpenAI |
/// | | `prompt_cache_hit_tokens` | DeepSeek |
/// | | `cached_tokens` | Moonshot |
/// | | `cache_read_input_tokens` | Anthropic |
/// | reasoning | `reasoning_tokens` in `…_tokens_details` | OpenAI |
/// | | `reasoning_tokens` | others |
/// | | what the total has beyond input and output, if that is more | Gemini, xAI |
///
/// Anthropic reports the three counts separately, so they are added. Gemini and xAI include
/// reasoning only in the total. Cached tokens never exceed the input, and reasoning tokens never
/// the output.
public struct UpstreamUsage: Hashable, Sendable {
    /// The largest count that is accepted: a billion.
    ///
    /// It keeps prices within 64 bits.
    static let largestCount: Int64 = 1_000_000_000

    /// Tokens of the prompt, including cached ones.
    public let promptTokens: Int64
    /// Tokens of the answer, including reasoning.
    public let completionTokens: Int64
    /// Tokens of the prompt from the upstream's cache.
    public let cachedTokens: Int64
    /// Tokens of the answer's reasoning; `nil` if the upstream reports none.
    public let reasoningTokens: Int64?

    /// Creates a usage.
    public init(
        promptTokens: Int64,
        completionTokens: Int64,
        cachedTokens: Int64 = 0,
        reasoningTokens: Int64? = nil
    ) {
        self.promptTokens = promptTokens
        self.completionTokens = completionTokens
        self.cachedTokens = cachedTokens
        self.reasoningTokens = reasoningTokens
    }

    /// Reads the reports of an answer or chunk; `nil` if there is no valid one.
    ///
    /// Reports of embeddings contain no output.
    init?(reportsIn json: JSONValue, isEmbedding: Bool = false) {
        var reports = [json["usage"], json["x_groq"]?["usage"]]
        if case .array(let choices) = json["choices"] { reports += choices.map { $0["usage"] } }
        let read = reports.compactMap { UpstreamUsage($0, isEmbedding: isEmbedding) }
        guard let first = read.first else { return nil }
        self = read.dropFirst().reduce(first) { $0.merged(with: $1) }
    }

    /// Reads one report.
    init?(_ json: JSONValue?, isEmbedding: Bool = false) {
        guard let json, case .object = json else { return nil }
        func largest(_ counts: JSONValue?...) -> Int64? {
            counts.compactMap { $0?.integer }.filter { (0...Self.largestCount).contains($0) }.max()
        }
        let apart = largest(json["cache_read_input_tokens"])
        let created = largest(json["cache_creation_input_tokens"])
        let total = isEmbedding ? nil : largest(json["total_tokens"])
        var input = largest(json["prompt_tokens"])
        if let named = largest(json["input_tokens"]) {
            // Only Anthropic's format counts cached tokens separately, and it has no total.
            let isApart = json["prompt_tokens"] == nil && json["total_tokens"] == nil
            let all = isApart ? named + (apart ?? 0) + (created ?? 0) : named
            input = max(input ?? 0, all)
        }
        guard
            var output = largest(json["completion_tokens"], json["output_tokens"])
                ?? (isEmbedding ? 0 : nil), let input
        else { return nil }
        var reasoning = largest(
            json["completion_tokens_details"]?["reasoning_tokens"],
            json["output_tokens_details"]?["reasoning_tokens"],
            json["reasoning_tokens"]
        )
        if let total, total - input > output {
            reasoning = max(reasoning ?? 0, total - input - output)
            output = total - input
        } else if let reasoning, reasoning > output {
            output += reasoning
        }
        let cached = largest(
            json["prompt_tokens_details"]?["cached_tokens"],
            json["input_tokens_details"]?["cached_tokens"],
            json["prompt_cache_hit_tokens"],
            json["cached_tokens"],
            apart.map { .integer($0) }
        )
        self.init(
            promptTokens: min(input, Self.largestCount),
            completionTokens: min(output, Self.largestCount),
            cachedTokens: min(cached ?? 0, input),
            reasoningTokens: reasoning
        )
    }

    /// Returns the larger of each count.
    ///
    /// Usage is cumulative, so the largest of several reports is the last. Servers that report the
    /// prompt first and the answer last leave the other count at zero.
    func merged(with other: UpstreamUsage) -> UpstreamUsage {
        UpstreamUsage(
            promptTokens: max(promptTokens, other.promptTokens),
            completionTokens: max(completionTokens, other.completionTokens),
            cachedTokens: max(cachedTokens, other.cachedTokens),
            reasoningTokens: [reasoningTokens, other.reasoningTokens].compactMap(\.self).max()
        )
    }

    /// The usage in the form that prices use.
    var usage: Usage {
        Usage(
            inputTokens: promptTokens,
            outputTokens: completionTokens,
            cachedInputTokens: cachedTokens,
            reasoningTokens: reasoningTokens
        )
    }
}
