import SanguineModel

/// Checks the content of calls, independently of their functions.
enum CallInput {
    /// Checks the content of a call against the rules of its function.
    ///
    /// - Throws: `invalid_content` for an input that is too large, and for content that a function
    ///   with public answers must not use.
    static func check(
        _ request: FunctionRequest<JSONValue>,
        _ rules: FunctionRules
    ) throws(Problem) {
        let limit = rules.limits.inputBytes
        guard request.input.canonical.count <= limit else {
            throw Problem(.invalidContent, "Shorten 'input' to \(limit) bytes of JSON.")
        }
        guard case .everyone(let shared) = rules.cache.audience else { return }
        guard request.attachments?.isEmpty ?? true else {
            throw Problem(
                .invalidContent,
                "Leave 'attachments' out: the answers of this function are public."
            )
        }
        guard case .object(let members) = request.input else {
            throw Problem(.invalidContent, "Set 'input' to an object.")
        }
        guard let other = members.keys.filter({ !shared.contains($0) }).min() else { return }
        let names = shared.sorted().map { "'\($0)'" }.joined(separator: ", ")
        throw Problem(
            .invalidContent,
            """
            Leave 'input.\(other.prefix(64))' out: the answers of this function are public. \
            Allowed members: \(shared.isEmpty ? "none" : names).
            """
        )
    }
}
