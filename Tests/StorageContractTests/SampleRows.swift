import SanguineAuthority
import SanguineModel

/// Three rows of each kind: with every field, without optional fields, and with edge values.
enum SampleRows {
    private static let id = Identifier.numbered(7)
    private static let other = Identifier.numbered(8)
    private static let first = Timestamp(millisecondsSince1970: .min)
    private static let last = Timestamp(millisecondsSince1970: .max)
    private static let oddText = "Zürich 🩸 \u{0} ' \" \\ % _ e\u{301} \u{200F}عربى"

    /// Rows in which every optional has a value.
    static let full: [Row] = [
        .account(
            AccountRow(
                profile: Account(
                    id: id,
                    kind: .registered,
                    email: "ana@example.org",
                    timeZone: "America/Argentina/Buenos_Aires",
                    language: "es-AR",
                    displayName: "Ana",
                    plan: .premium,
                    settings: [
                        "done": true, "count": .integer(.max), "ratio": .number(0.1),
                        "none": .null, "list": .array([1, "two", [:]]),
                    ],
                    createdAt: .at(1)
                ),
                seq: 9,
                era: 8
            )
        ),
        .balance(
            BalanceRow(
                account: id,
                head: 12,
                available: 97,
                held: 3,
                seq: 11,
                changedAt: .at(2),
                grants: .sample,
                spending: Spending(
                    perDay: 50,
                    period: Spending.Period(day: day, used: 7, resetsAt: .at(4))
                )
            )
        ),
        .device(
            DeviceRow(
                id: "a-device-of-someone",
                secretHash: (0..<32).map { $0 },
                account: id,
                createdAt: .at(3),
                era: 8
            )
        ),
        .session(
            SessionRow(
                id: id,
                account: other,
                generation: 4,
                rotatedAt: .at(5),
                expiresAt: .at(6),
                endedAt: .at(7),
                deviceName: "Ana's phone",
                device: "a-device-of-someone",
                era: 8
            )
        ),
        .quota(
            QuotaRow(
                account: id,
                name: "readings",
                day: day,
                used: 2,
                resetsAt: .at(8),
                seq: 10,
                held: 1
            )
        ),
        .hold(
            HoldRow(
                id: id,
                account: other,
                amount: 30,
                expiresAt: .at(9),
                state: .captured(21),
                reason: "ask",
                operation: "a-key",
                sent: true,
                quota: QuotaHold(name: "readings", day: day, units: 2, isKeptWhenLost: true),
                chargeWhenCut: 5,
                grants: .sample,
                spentOn: day,
                labels: ChargeLabels(model: "m", key: "k", tag: "t")
            )
        ),
        .operation(
            OperationRow(
                account: id,
                key: "a-key",
                fingerprint: (0..<32).map { 255 - $0 },
                state: .done(StoredAnswer(status: 201, body: [0, 1, 0, 255], head: 12, parts: 3)),
                at: .at(10),
                run: other
            )
        ),
        .record(
            RecordRow(
                name: .sample("r", in: id),
                owner: id,
                seq: 13,
                through: 15,
                deletedAt: .at(13),
                value: Array("{\"a\":1}".utf8),
                createdAt: .at(11),
                updatedAt: .at(12)
            )
        ),
        .feed(
            FeedRow(account: id, records: 14, tombstones: 16, bytes: 17, horizon: 15, threads: 18)
        ),
        .result(
            ResultRow(
                key: [1, 0, 2],
                account: id,
                function: "daily",
                output: Array("{}".utf8),
                madeAt: .at(16),
                expiresAt: .at(17)
            )
        ),
        .parts(PartsRow(run: id, first: 0, texts: Array("[]".utf8), at: .at(18))),
        .blob(
            BlobRow(
                account: id,
                id: .sample(1),
                size: 19,
                type: "image/png",
                width: 20,
                height: 21,
                createdAt: .at(22)
            )
        ),
    ]

    /// Rows with the same keys and without optional values.
    static let sparse: [Row] = [
        .account(.sample(id)),
        .balance(.sample(id)),
        .device(
            DeviceRow(id: "a-device-of-someone", secretHash: [], account: id, createdAt: .at(0))
        ),
        .session(.sample(id)),
        .quota(
            QuotaRow(account: id, name: "readings", day: day, used: 0, resetsAt: .at(0), seq: 0)
        ),
        .hold(.sample(id)),
        .operation(.sample(id, "a-key")),
        .record(.sample("r", in: id, of: other)),
        .feed(FeedRow(account: id)),
        .result(
            ResultRow(
                key: [1, 0, 2],
                account: nil,
                function: "",
                output: [],
                madeAt: .at(0),
                expiresAt: .at(0)
            )
        ),
        .parts(PartsRow(run: id, first: 0, texts: [], at: .at(0))),
        .blob(BlobRow(account: id, id: .sample(1), size: 0, type: "", createdAt: .at(0))),
    ]

    /// Rows with values that a column could corrupt.
    static let edges: [Row] = [
        .account(
            AccountRow(
                profile: Account(
                    id: id,
                    kind: .guest,
                    email: "",
                    timeZone: "",
                    language: oddText,
                    displayName: oddText,
                    settings: [oddText: .string(oddText)],
                    createdAt: first
                ),
                seq: .max
            )
        ),
        .balance(
            BalanceRow(
                account: id,
                head: .max,
                available: .min,
                held: .max,
                seq: .min,
                changedAt: last
            )
        ),
        .device(
            DeviceRow(
                id: oddText,
                secretHash: [UInt8](repeating: 0, count: 32),
                account: id,
                createdAt: last
            )
        ),
        .device(DeviceRow(id: "", secretHash: [], account: id, createdAt: first)),
        .session(
            SessionRow(
                id: id,
                account: other,
                generation: .max,
                rotatedAt: first,
                expiresAt: last,
                endedAt: first
            )
        ),
        .quota(
            QuotaRow(
                account: id,
                name: oddText,
                day: day,
                used: .max,
                resetsAt: last,
                seq: .min
            )
        ),
        .hold(
            HoldRow(
                id: id,
                account: id,
                amount: .min,
                expiresAt: first,
                state: .captured(.max),
                reason: "",
                operation: ""
            )
        ),
        .hold(.sample(id, state: .released)),
        .hold(.sample(id, state: .expired)),
        .operation(.sample(id, "", .running(hold: other))),
        .operation(.sample(id, oddText, .forgotten, at: last)),
        .operation(.done(id, "empty", head: nil)),
        .operation(
            .sample(
                id,
                "large",
                .done(
                    StoredAnswer(
                        status: 599,
                        body: [UInt8](repeating: 7, count: 1 << 20),
                        head: .min
                    )
                )
            )
        ),
        .operation(
            .sample(id, "no-body", .done(StoredAnswer(status: 204, body: [], head: .max)))
        ),
        .operation(.sample(id, "pushed", .pushed(head: .max, refusal: nil))),
        .operation(.sample(id, "refused", .pushed(head: .min, refusal: [0, 1]))),
        .operation(.sample(id, "nothing", .pushed(head: 0, refusal: []))),
        .record(.sample("r", in: nil, of: id)),
        .record(
            RecordRow(
                name: .sample(String(repeating: "~", count: 128), in: id),
                owner: id,
                seq: .max,
                through: .min,
                deletedAt: last,
                value: [UInt8](repeating: 0, count: 1 << 16),
                createdAt: first,
                updatedAt: first
            )
        ),
        .feed(
            FeedRow(
                account: other,
                records: .max,
                tombstones: .min,
                bytes: .max,
                horizon: .min,
                threads: .max
            )
        ),
    ]

    /// The same as ``edges``, for functions.
    static let functionEdges: [Row] = [
        .result(
            ResultRow(
                key: [],
                account: nil,
                function: oddText,
                output: [UInt8](repeating: 0, count: 1 << 16),
                madeAt: first,
                expiresAt: last
            )
        ),
        .parts(PartsRow(run: other, first: .max, texts: [0, 255], at: last)),
        .parts(PartsRow(run: other, first: .min, texts: [], at: first)),
        .blob(
            BlobRow(
                account: other,
                id: .sample(0),
                size: .max,
                type: oddText,
                width: .min,
                height: .max,
                createdAt: last
            )
        ),
    ]

    private static var day: CalendarDay {
        guard let day = CalendarDay("2028-02-29") else {
            preconditionFailure("The 29th of February 2028 exists.")
        }
        return day
    }
}
