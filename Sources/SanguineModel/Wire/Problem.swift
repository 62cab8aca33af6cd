/// A refusal or error on the wire: `application/problem+json` (RFC 9457).
///
/// `detail` says what to do next and contains no personal data. The members after ``code`` apply to
/// single codes, and are `nil` for others.
public struct Problem: Error, Hashable, Codable, Sendable {
    /// A URI that identifies the kind of problem: `urn:sanguine:problem:<code>`, or the URI that
    /// the app's own backend sent, or `about:blank` if it sent none.
    public var type: String
    /// The kind of problem in one sentence, the same for every occurrence.
    public var title: String
    /// The HTTP status.
    public var status: Int
    /// The next step for the user or the developer.
    public var detail: String
    /// A URI that identifies this occurrence, or `nil` if there is none, as from a Sanguine server.
    public var instance: String?
    /// The stable code for programs to act on.
    public var code: ProblemCode

    /// For `insufficient_tokens`: the available amount, in the balance's unit.
    public var available: Int64?
    /// For `insufficient_tokens`: the amount held for running operations, in the balance's unit.
    public var held: Int64?
    /// For `insufficient_tokens` and `spending_limit_reached`: the amount that the operation needs,
    /// in the balance's unit.
    public var required: Int64?
    /// For `upstream_timeout`, `upstream_failed`, `upstream_refused`, `interrupted` and
    /// `call_cancelled`: the charge of the call, in the balance's unit.
    ///
    /// `nil` if its hold was released.
    public var charged: Int64?
    /// For `quota_exhausted` and `spending_limit_reached`: the start of the next period.
    public var resetsAt: Timestamp?
    /// For `quota_exhausted`: the plans that lift the quota.
    public var lifts: [String]?
    /// The number of whole seconds to wait before a retry, as in the `Retry-After` header.
    public var retryAfter: Int?
    /// For `upstream_refused`: the reason that the upstream gave.
    public var upstream: UpstreamReason?

    /// Local information about the problem that is not sent.
    package var context = Context()

    /// Any value; problems that differ only in it are equal.
    package struct Context: Hashable, Sendable {
        package var value: (any Sendable)?

        package static func == (lhs: Self, rhs: Self) -> Bool { true }
        package func hash(into hasher: inout Hasher) {}
    }

    private enum CodingKeys: String, CodingKey {
        case type, title, status, detail, instance, code
        case available, held, required, charged, resetsAt, lifts, retryAfter, upstream
    }

    /// Creates a problem.
    ///
    /// Status, title and type follow from the code. An app's own code is a refusal with status 422.
    ///
    /// - Parameters:
    ///   - code: The kind of problem.
    ///   - detail: The next step for the user or the developer, in one or two sentences, without
    ///     personal data.
    ///   - retryAfter: The number of whole seconds to wait before a retry.
    public init(_ code: ProblemCode, _ detail: String, retryAfter: Int? = nil) {
        type = "urn:sanguine:problem:\(code.rawValue)"
        (status, title) = code.meaning
        self.detail = detail
        self.code = code
        self.retryAfter = retryAfter
    }
}

extension Problem {
    /// The received members of a problem, each of them optional (RFC 9457, section 3.1).
    ///
    /// Members of a wrong type are ignored, as the standard requires.
    package struct Members: Decodable, Sendable {
        fileprivate let type: String?
        fileprivate let title: String?
        fileprivate let status: Int?
        fileprivate let detail: String?
        fileprivate let instance: String?
        fileprivate let code: ProblemCode?
        fileprivate let available: Int64?
        fileprivate let held: Int64?
        fileprivate let required: Int64?
        fileprivate let charged: Int64?
        fileprivate let resetsAt: Timestamp?
        fileprivate let lifts: [String]?
        fileprivate let retryAfter: Int?
        fileprivate let upstream: UpstreamReason?

        package init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: CodingKeys.self)
            func read<Value: Decodable>(_ key: CodingKeys) -> Value? {
                try? members.decode(Value.self, forKey: key)
            }
            type = read(.type)
            title = read(.title)
            status = read(.status)
            detail = read(.detail)
            instance = read(.instance)
            code = read(.code)
            available = read(.available)
            held = read(.held)
            required = read(.required)
            charged = read(.charged)
            resetsAt = read(.resetsAt)
            lifts = read(.lifts)
            retryAfter = read(.retryAfter)
            upstream = read(.upstream)
        }

        /// Whether all members that identify a problem are missing.
        package var isEmpty: Bool {
            type == nil && title == nil && status == nil && detail == nil && instance == nil
                && code == nil
        }
    }

    /// Creates the problem that the members describe.
    ///
    /// Missing members follow from the status; the code is then `http_<status>`.
    ///
    /// - Parameters:
    ///   - members: The received members.
    ///   - answered: The HTTP status of the response. Default: the status in the members.
    package init(_ members: Members, status answered: Int? = nil) {
        let status = answered ?? members.status ?? members.code?.meaning.status ?? 500
        code = members.code ?? ProblemCode(status: status)
        let meaning = code.meaning
        self.status = status
        type = members.type ?? "about:blank"
        title =
            members.title
            ?? (meaning.status == status ? meaning.title : ProblemCode.title(ofStatus: status))
        detail = members.detail ?? "The backend answered with status \(status) and no detail."
        instance = members.instance
        available = members.available
        held = members.held
        required = members.required
        charged = members.charged
        resetsAt = members.resetsAt
        lifts = members.lifts
        retryAfter = members.retryAfter
        upstream = members.upstream
    }

    /// Decodes a problem; each of its members may be missing.
    ///
    /// - Throws: `DecodingError` if all members that identify a problem are missing: `type`,
    ///   `title`, `status`, `detail`, `instance` and `code`.
    public init(from decoder: any Decoder) throws {
        let members = try Members(from: decoder)
        guard !members.isEmpty else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath,
                    debugDescription: "An object without any member of a problem is not a problem."
                )
            )
        }
        self.init(members)
    }
}

extension Problem: CustomStringConvertible {
    /// The title, the detail and the code.
    public var description: String {
        [title, detail, "[\(code.rawValue)]"].filter { !$0.isEmpty }.joined(separator: " ")
    }
}
