import Foundation
import SanguineModel

/// Checks a call before its files are sent, so that a refusal costs no upload.
struct UploadCheck {
    /// The function, as the server lists it.
    let function: FunctionDescription

    /// Checks the next file of a call against the server's rules.
    ///
    /// - Parameters:
    ///   - type: The declared media type of the file.
    ///   - bytes: The size; `nil` if it is unknown.
    ///   - others: Files that are already attached to the call.
    /// - Throws: `invalid_content`, as the server would refuse the call.
    func check(type: String, bytes: Int?, besides others: [BlobFacts]) throws(SanguineError) {
        guard let rules = function.attachments else {
            throw .refused("Leave 'attachments' out: the function takes none.")
        }
        guard others.count < rules.count else {
            throw .refused("Send at most \(rules.count) attachments: this is one more.")
        }
        let media = type.split(separator: ";").first.map { $0.lowercased() } ?? ""
        // The server determines the type of plain bytes from their content.
        guard media == "application/octet-stream" || rules.types.contains(media) else {
            let types = rules.types.joined(separator: ", ")
            throw .refused("Send another file: this one is \(media), and not \(types).")
        }
        let rest = others.reduce(rules.bytes) { $0 - $1.size }
        guard bytes ?? 0 <= rest else {
            throw .refused(
                "Send a smaller file: its \(bytes ?? 0) bytes exceed \(rules.bytes) in all."
            )
        }
    }

    /// Checks whether the user can pay the lowest price of the call.
    ///
    /// - Parameters:
    ///   - quotas: The current quotas.
    ///   - balance: The current balance.
    ///   - now: The current time.
    /// - Throws: `quota_exhausted` or `insufficient_tokens`.
    func check(
        _ quotas: [Quota],
        _ balance: Balance,
        at now: Timestamp
    ) throws(SanguineError) {
        var least = function.price.amount
        if let price = function.price.quota,
            let quota = quotas.first(where: { $0.name == price.name }), !quota.allows(price.units)
        {
            guard let tokens = price.otherwise else {
                throw .problem(.exhausted(quota, at: now))
            }
            least += tokens
        }
        guard least == 0 || least <= balance.available else {
            var problem = Problem(
                .insufficientTokens,
                "Get more tokens first: the call costs at least \(least)."
            )
            (problem.available, problem.held) = (balance.available, balance.held)
            problem.required = least
            throw .problem(problem)
        }
    }
}

extension SanguineError {
    fileprivate static func refused(_ detail: String) -> SanguineError {
        .problem(Problem(.invalidContent, detail))
    }
}

extension RequestBody {
    /// The size in bytes; `nil` if it is unknown before reading.
    var knownBytes: Int? {
        switch content {
        case .data(let data): data.count
        case .file(let url):
            (try? FileManager.default.attributesOfItem(atPath: url.path))?[.size] as? Int
        case .parts: nil
        }
    }
}
