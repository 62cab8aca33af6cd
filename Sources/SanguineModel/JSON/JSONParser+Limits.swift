extension JSONParser {
    /// How large JSON may be in structure, whatever its bytes.
    package struct Limits: Sendable {
        /// How deep values may nest.
        package var nesting: Int
        /// Values, and names of members.
        package var values: Int
        /// The member of the outermost object whose elements are measured each for itself.
        ///
        /// Default: none, the document is measured as a whole.
        package var unit: String?
        /// How many elements of the unit are parsed; those behind are `null`.
        package var units: Int
        /// How members are treated whose names are over their limit.
        ///
        /// Default: they break a limit.
        package var longNames = LongNames.refused
        /// Whether texts may have any number of combining marks in a row.
        ///
        /// Default: more than ``SanguineModel/WireLimits/textMarks`` break a limit.
        package var takesAnyText = false
        /// Whether JSON is read that other programs write, although RFC 8259 advises against it: of
        /// members with the same name the last one counts, half of a surrogate pair is U+FFFD, and
        /// a number that no double holds is the largest that one does.
        ///
        /// Default: no. A text that is read so is passed on as it came; ``Document/isApproximate``
        /// says that the value differs from it.
        package var isTolerant = false

        /// How members are treated whose names are over their limit; see
        /// ``SanguineModel/WireLimits/memberNameBytes``.
        package enum LongNames: Sendable {
            /// They break a limit.
            case refused
            /// They are left out of the value; ``Document/hasHidden`` says so.
            case hidden
            /// They are taken, and hashed at any cost.
            case taken
        }

        /// The limits of JSON that was stored before, or that an upstream has written: its bytes
        /// are bounded.
        ///
        /// Versions before this one stored members with names of any length; a reader must not pay
        /// for them. A value that is read so is shown, and not stored again: it lacks members; see
        /// ``HiddenMembers``.
        package static var stored: Limits {
            var limits = Limits(nesting: 256, values: .max)
            (limits.longNames, limits.takesAnyText) = (.hidden, true)
            return limits
        }

        /// The limits of JSON that an upstream has written, and that is passed on as it came.
        package static var tolerant: Limits {
            var limits = stored
            limits.isTolerant = true
            return limits
        }

        /// The limits of JSON that this program has written, of values that it held.
        ///
        /// Its names were hashed before, and its members may be stored again: none is left out.
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

    /// What was parsed.
    package struct Document: Sendable {
        /// The value.
        package var value: JSONValue
        /// The elements of the unit that break a limit, or have a number larger than a double can
        /// be, by their indexes; what is inside of them is incomplete.
        package var overLimit: Set<Int> = []
        /// Whether members were left out, whose names are over their limit.
        package var hasHidden = false
        /// Whether the text says more than the value; see ``Limits/isTolerant``.
        package var isApproximate = false
    }

    /// Why a text was not parsed.
    package enum Fault: Error, Hashable, Sendable {
        /// It is no JSON; the offset is in bytes.
        case malformed(offset: Int)
        /// It breaks a limit.
        case overLimit
        /// Two members of an object have the same name, or names that are canonically equal.
        case sameName(String)
        /// A number is larger than a double can be.
        case numberTooLarge(String)
    }
}
