/// A refusal or fault as it travels: `application/problem+json` (RFC 9457).
///
/// `detail` says what to do next and holds nothing personal. The members after ``code`` belong to
/// single codes and are `nil` elsewhere.
public struct Problem: Error, Hashable, Codable, Sendable {
    /// A URI that names the kind of problem: `urn:sanguine:problem:<code>`, or what a backend of
    /// the app's own has sent; `about:blank` if it sent none.
    public var type: String
    /// The kind of problem in one sentence; the same for every occurrence.
    public var title: String
    /// The HTTP status.
    public var status: Int
    /// What to do next.
    public var detail: String
    /// A URI that names this occurrence; `nil` if the backend sent none, as a Sanguine server does.
    public var instance: String?
    /// The stable code to decide by.
    public var code: ProblemCode

    /// With `insufficient_tokens`: what may be spent, in the balance's unit.
    public var available: Int64?
    /// With `insufficient_tokens`: what is held for operations in flight, in the balance's unit.
    public var held: Int64?
    /// With `insufficient_tokens`: what the operation needs, in the balance's unit.
    public var required: Int64?
    /// With `upstream_timeout`, `upstream_failed`, `upstream_refused`, `interrupted` and
    /// `call_cancelled`: what the
    /// call was charged all the same, in the balance's unit.
    ///
    /// `nil` if its hold was released.
    public var charged: Int64?
    /// With `quota_exhausted`: when the next period begins.
    public var resetsAt: Timestamp?
    /// With `quota_exhausted`: the plans that lift the quota.
    public var lifts: [String]?
    /// Whole seconds after which another try makes sense; also the `Retry-After` header.
    public var retryAfter: Int?
    /// With `upstream_refused`: the reason that the upstream gave.
    public var upstream: UpstreamReason?

    /// What is known of the problem besides its members: it does not travel.
    package var context = Context()

    /// Anything; two problems that differ in it alone are equal.
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
    /// Status, title and type follow from the code: an app's own code is a refusal of status 422.
    ///
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - detail: What to do next, in a sentence or two, without anything personal.
    ///   - retryAfter: Whole seconds after which another try makes sense.
    public init(_ code: ProblemCode, _ detail: String, retryAfter: Int? = nil) {
        type = "urn:sanguine:problem:\(code.rawValue)"
        (status, title) = code.meaning
        self.detail = detail
        self.code = code
        self.retryAfter = retryAfter
    }
}

extension Problem {
    /// A problem's members as they came, each of them optional (RFC 9457, section 3.1).
    ///
    /// A member of another type than the standard's is left out, as the standard asks.
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

        /// Whether there is none of the members by which a problem is known.
        package var isEmpty: Bool {
            type == nil && title == nil && status == nil && detail == nil && instance == nil
                && code == nil
        }
    }

    /// Creates the problem that the members describe.
    ///
    /// What is missing follows from the status: the code is then `http_<status>`.
    ///
    /// - Parameters:
    ///   - members: What came.
    ///   - answered: The HTTP status with which it came. Default: what the members say.
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

    /// Reads a problem; each of its members may be missing.
    ///
    /// - Throws: `DecodingError` if all of those are missing by which a problem is known: `type`,
    ///   `title`, `status`, `detail`, `instance` and `code`.
    public init(from decoder: any Decoder) throws {
        let members = try Members(from: decoder)
        guard !members.isEmpty else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath,
                    debugDescription: "An object with none of a problem's members is no problem."
                )
            )
        }
        self.init(members)
    }
}

extension Problem: CustomStringConvertible {
    /// The title, what to do next, and the code.
    public var description: String {
        [title, detail, "[\(code.rawValue)]"].filter { !$0.isEmpty }.joined(separator: " ")
    }
}
