extension JSONParser {
    /// Limits of the structure of JSON, regardless of its size in bytes.
    package struct Limits: Sendable {
        /// The largest depth of nested values.
        package var nesting: Int
        /// The maximum number of values and member names.
        package var values: Int
        /// The member of the outermost object whose elements are measured separately.
        ///
        /// Default: none, the document is measured as a whole.
        package var unit: String?
        /// The number of elements of the unit that are parsed; further ones become `null`.
        package var units: Int
        /// The treatment of members whose names exceed the limit.
        ///
        /// Default: they break a limit.
        package var longNames = LongNames.refused
        /// Whether strings may have any number of consecutive combining marks.
        ///
        /// Default: no, more than ``SanguineModel/WireLimits/textMarks`` break a limit.
        package var takesAnyText = false
        /// Whether to accept JSON that RFC 8259 permits but advises against: the last of several
        /// members with the same name counts, half of a surrogate pair becomes U+FFFD, and a number
        /// outside the range of a double becomes the closest double.
        ///
        /// Default: no. Such a text is forwarded unchanged; ``Document/isApproximate`` indicates
        /// that the value differs from it.
        package var isTolerant = false

        /// The treatment of names longer than ``SanguineModel/WireLimits/memberNameBytes``.
        package enum LongNames: Sendable {
            /// They break a limit.
            case refused
            /// They are omitted from the value, and ``Document/hasHidden`` is set.
            case hidden
            /// They are accepted, and hashed at any cost.
            case taken
        }

        /// The limits of JSON that was stored earlier or written by an upstream, and whose size in
        /// bytes is bounded.
        ///
        /// Earlier versions stored members with names of any length, which must not slow down a
        /// reader. A value that is read this way is shown but not stored again, because it lacks
        /// members; see ``HiddenMembers``.
        package static var stored: Limits {
            var limits = Limits(nesting: 256, values: .max)
            (limits.longNames, limits.takesAnyText) = (.hidden, true)
            return limits
        }

        /// The limits of JSON that an upstream has written and that is forwarded unchanged.
        package static var tolerant: Limits {
            var limits = stored
            limits.isTolerant = true
            return limits
        }

        /// The limits of JSON that this program wrote from values in memory.
        ///
        /// Its names have been hashed before, and its members may be stored again, so none is
        /// omitted.
        package static var written: Limits {
            var limits = Limits(nesting: 256, values: .max)
            (limits.longNames, limits.takesAnyText) = (.taken, true)
            return limits
        }

        /// Creates limits.
        package init(
            nesting: Int = WireLimits.jsonNesting,
            values: Int = WireLimits.jsonValues,
            unit: String? = nil,
            units: Int = .max
        ) {
            self.nesting = nesting
            self.values = values
            self.unit = unit
            self.units = units
        }
    }

    /// A parsed text.
    package struct Document: Sendable {
        /// The value.
        package var value: JSONValue
        /// The indexes of the unit's elements that break a limit, or contain a number outside the
        /// range of a double.
        ///
        /// Their contents are incomplete.
        package var overLimit: Set<Int> = []
        /// Whether members were omitted because their names exceed the limit.
        package var hasHidden = false
        /// Whether the value differs from the text; see ``Limits/isTolerant``.
        package var isApproximate = false
    }

    /// The reason why a text could not be parsed.
    package enum Fault: Error, Hashable, Sendable {
        /// The text is not JSON; the offset is in bytes.
        case malformed(offset: Int)
        /// It breaks a limit.
        case overLimit
        /// Two members of an object have names that are equal or canonically equivalent.
        case sameName(String)
        /// A number exceeds the range of a double.
        case numberTooLarge(String)
    }
}
