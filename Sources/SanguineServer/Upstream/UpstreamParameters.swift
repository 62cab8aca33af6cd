import SanguineModel
import Synchronization

extension UpstreamConfiguration {
    /// The member of requests that limits the length of answers in tokens.
    public enum OutputLimit: String, CaseIterable, Hashable, Sendable {
        /// The caller's member, otherwise `max_tokens`; the other one once that was refused.
        case auto
        /// `max_tokens`, which most servers accept.
        case maxTokens = "max_tokens"
        /// `max_completion_tokens`, which OpenAI's reasoning models require.
        case maxCompletionTokens = "max_completion_tokens"
        /// No limit is sent. The caller's cost is still limited; the operator pays for the rest.
        case none
    }

    /// Whether an upstream accepts `stream_options`, without which most report no usage of streams.
    public enum StreamOptions: String, CaseIterable, Hashable, Sendable {
        /// Until the upstream has refused them.
        case auto
        /// Always.
        case always = "true"
        /// Never.
        case never = "false"
    }
}

/// The members of requests that not all upstreams accept, for one model of one upstream.
struct UpstreamParameters: Hashable, Sendable {
    /// The name of the member that limits the answer.
    var outputLimit: UpstreamConfiguration.OutputLimit = .auto
    /// Whether streams are requested to report usage.
    var hasStreamOptions = true

    init() {}

    /// Creates the parameters of the settings.
    init(_ configuration: UpstreamConfiguration) {
        outputLimit = configuration.outputLimit
        hasStreamOptions = configuration.streamOptions != .never
    }

    /// Returns a description of the differences from other parameters, for the log.
    func changes(from other: UpstreamParameters) -> String {
        var changes: [String] = []
        if outputLimit != other.outputLimit {
            changes.append("outputLimit: \(outputLimit.rawValue)")
        }
        if hasStreamOptions != other.hasStreamOptions {
            changes.append("streamOptions: \(hasStreamOptions)")
        }
        return changes.joined(separator: ", ")
    }

    /// Returns the parameters to send after the refusal of one that the settings leave open.
    ///
    /// OpenAI names the parameter in `error.param` and in the message, FastAPI servers (vLLM,
    /// Mistral) in the path of `detail`, others only in the message.
    ///
    /// - Returns: `nil` if the refusal has another reason.
    func afterRefusal(
        _ body: some Sequence<UInt8>,
        _ configuration: UpstreamConfiguration
    ) -> UpstreamParameters? {
        let words = String(decoding: Array(body), as: UTF8.self).lowercased()
        guard Self.refusals.contains(where: words.contains) else { return nil }
        var other = self
        if configuration.streamOptions == .auto, words.hasWord("stream_options") {
            other.hasStreamOptions = false
        }
        if configuration.outputLimit == .auto {
            let old = words.position(ofWord: Self.maxTokens)
            let new = words.position(ofWord: Self.maxCompletionTokens)
            // "Unsupported parameter: 'max_tokens' … Use 'max_completion_tokens' instead."
            switch (old, new) {
            case (nil, nil): break
            case (let old?, let new) where new.map({ old < $0 }) ?? true:
                other.outputLimit = .maxCompletionTokens
            default: other.outputLimit = .maxTokens
            }
        }
        return other == self ? nil : other
    }

    private static let maxTokens = UpstreamConfiguration.OutputLimit.maxTokens.rawValue
    private static let maxCompletionTokens =
        UpstreamConfiguration.OutputLimit.maxCompletionTokens.rawValue

    /// Phrases that refuse a parameter and not its value.
    private static let refusals = [
        "unsupported", "not supported", "unrecognized", "unknown", "unexpected", "not permitted",
        "not allowed", "extra_forbidden",
    ]
}

/// The parameters that upstreams were found to accept, by model.
///
/// They are lost at a restart. The names are those of the settings; at most ``mostModels`` are
/// stored.
///
/// Mutable state: `known`, guarded by its mutex because calls end on any thread.
final class LearnedParameters: Sendable {
    /// The maximum number of stored models of one upstream.
    static let mostModels = 64

    private let first: UpstreamParameters
    private let known = Mutex<[String: UpstreamParameters]>([:])

    /// Creates a list with the initial parameters of every model.
    init(_ first: UpstreamParameters) { self.first = first }

    /// The parameters of a model.
    subscript(model: String) -> UpstreamParameters { known.withLock { $0[model] } ?? first }

    /// Records the parameters that a model has accepted.
    ///
    /// - Returns: Whether they are new and were stored.
    func learn(_ parameters: UpstreamParameters, of model: String) -> Bool {
        known.withLock { known in
            guard known[model] != parameters else { return false }
            guard known[model] != nil || known.count < Self.mostModels else { return false }
            known[model] = parameters
            return true
        }
    }
}

extension String {
    fileprivate func hasWord(_ word: String) -> Bool { position(ofWord: word) != nil }

    /// Returns the position of a name that is not part of a longer one.
    fileprivate func position(ofWord word: String) -> Int? {
        let (text, word) = (Array(utf8), Array(word.utf8))
        guard text.count >= word.count else { return nil }
        func isName(_ index: Int) -> Bool {
            guard text.indices.contains(index) else { return false }
            let byte = text[index]
            return byte == UInt8(ascii: "_") || (0x30...0x39).contains(byte)
                || (0x61...0x7A).contains(byte)
        }
        return (0...(text.count - word.count)).first { start in
            text[start] == word[0] && text[start..<(start + word.count)].elementsEqual(word)
                && !isName(start - 1) && !isName(start + word.count)
        }
    }
}
